"""Backups under load, and other grids made of them."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.e2e.grid import Grid
from tests.e2e.kubernetes import SECONDS

KEYS: Final = 500
RESTORE_SECONDS: Final = SECONDS
CLIENT: Final = """
import socket, sys, time
host, verb, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
wrong, pause = [], 0.2
def connected(tries):  # a Service that was just made may not be reachable from everywhere
    try:
        return socket.create_connection((host, 6379), timeout=60)
    except ConnectionRefusedError:
        if not tries:
            raise
    time.sleep(pause)
    return connected(tries - 1)
with connected(100) as s:
    f = s.makefile("rwb")
    for i in range(count):
        key, value = b"kept:%d" % i, b"value-%d" % i
        parts = [b"SET", key, value] if verb == "set" else [b"GET", key]
        words = b"".join(b"$%d\\r\\n%s\\r\\n" % (len(p), p) for p in parts)
        f.write(b"*%d\\r\\n" % len(parts) + words)
        f.flush()
        head = f.readline()
        told = f.readline().strip() if head[:1] == b"$" and not head.startswith(b"$-1") else head
        if not (told.startswith(b"+OK") if verb == "set" else told == value):
            wrong.append((i, told))
print(wrong[:10])
sys.exit(bool(wrong))
"""


def declare(grid: Grid, kind: str, name: str, **spec: Any) -> None:
    """Apply a resource of ours."""
    body = {
        "apiVersion": "holdfast.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    grid.run("apply", "-f", "-", stdin=json.dumps(body))


def status(grid: Grid, resource: str) -> dict[str, Any]:
    """Of a Backup or a Restore."""
    found = grid.kubectl.json("-n", grid.namespace, "get", resource)
    told: dict[str, Any] = found.get("status", {})
    return told


def until_ended(grid: Grid, resource: str) -> dict[str, Any]:
    """Until it is complete; one that failed says why."""
    ends = ("Completed", "Failed")
    grid.until(lambda: status(grid, resource).get("phase") in ends, resource, RESTORE_SECONDS)
    told = status(grid, resource)
    assert told["phase"] == "Completed", told
    return told


def restore(grid: Grid, name: str, source: dict[str, Any], **spec: Any) -> None:
    """Into a Cluster of the same name; it serves what was kept, and is deleted with its claims."""
    small = {"persistence": {"size": "1Gi", "reclaim": "Delete"}, **spec}
    declare(grid, "Restore", name, source=source, cluster={"name": name, "spec": small})
    until_ended(grid, f"hfr/{name}")
    grid.run("wait", "--for=condition=Complete", f"hfr/{name}", "--timeout=10s")
    grid.run("wait", "--for=condition=Safe", f"hfc/{name}", f"--timeout={SECONDS:.0f}s")
    grid.load.inside(CLIENT, name, "get", str(KEYS))
    grid.run("delete", "hfc", name, f"--timeout={SECONDS:.0f}s")
    grid.run("delete", "hfr", name)


def test_a_backup_is_restored_into_other_names_and_sizes(grid: Grid) -> None:
    """Applications write on meanwhile; every key that was written before is in each new grid."""
    grid.load.inside(CLIENT, "orders", "set", str(KEYS))
    declare(grid, "Backup", "before", cluster="orders")
    until_ended(grid, "hfb/before")
    for members, partitions in ((1, 7), (2, 64), (3, 271)):
        backups = min(1, members - 1)
        name = f"copy-{members}"
        source = {"backup": "before"}
        restore(grid, name, source, members=members, partitions=partitions, backups=backups)
    assert "BackupCompleted" in grid.events()


def test_a_backup_in_a_claim_is_restored(grid: Grid) -> None:
    """Twice there, the second time with only what is new; one of the copies has one member, as the
    claim can be on one node alone."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "vault"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    grid.run("apply", "-f", "-", stdin=json.dumps(claim))
    grid.load.inside(CLIENT, "orders", "set", str(KEYS))
    for name in ("one", "two"):
        declare(grid, "Backup", name, cluster="orders", target={"claim": "vault"})
        assert until_ended(grid, f"hfb/{name}")["place"] == "claim vault, backups"
    restore(grid, "of-claim", {"kept": {"claim": "vault"}}, members=1, backups=0)
    grid.run("delete", "hfb", "--all")
    grid.run("delete", "pvc", "vault", "--wait=false")


def test_a_schedule_makes_backups(grid: Grid) -> None:
    declare(grid, "BackupSchedule", "often", cluster="orders", schedule="* * * * *", keep=1)
    grid.until(lambda: status(grid, "hfbs/often").get("lastBackup"), "one is declared", 130)
    made = status(grid, "hfbs/often")["lastBackup"]
    until_ended(grid, f"hfb/{made}")
    grid.run("delete", "hfbs", "often")


@pytest.mark.parametrize("name", ["orders", "copy"])
def test_what_can_not_be_restored_says_why(grid: Grid, name: str) -> None:
    source = {"backup": "never"} if name == "copy" else {"kept": {"claim": "no-such-claim"}}
    declare(grid, "Restore", f"bad-{name}", source=source, cluster={"name": name})
    wanted = "there is no Backup never" if name == "copy" else "there is a Cluster orders already"

    def told() -> bool:
        message: str = status(grid, f"hfr/bad-{name}").get("message", "")
        return wanted in message

    grid.until(told, "it is told")
    assert not grid.run("get", "hfc", "copy", "--ignore-not-found")
    grid.run("delete", "hfr", f"bad-{name}")
