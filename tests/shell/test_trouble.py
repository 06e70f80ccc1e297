"""Everything at once, with real processes: what was acknowledged stays, and clients go on.

A client of Redis Cluster writes all the time; meanwhile members are killed, stopped, cut off, slow,
let in and let go, and administrators change what they like. Nothing is asserted about times.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import redis

from tests.shell.ledger import Ledger
from tests.shell.processes import MAIN, SECRET, Grid, Process, ask
from tests.shell.relays import HOST, Relays
from tests.shell.waiting import wait_until

PATIENCE = 180.0


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Grid]:
    """A cluster that a test may break."""
    grid = Grid(tmp_path)
    try:
        yield grid
    finally:
        grid.end()


def goes_on(ledger: Ledger) -> None:
    """Until some more writes were acknowledged."""
    wanted = ledger.count + 60
    wait_until(lambda: ledger.count > wanted or ledger.failure, "writes are acknowledged", PATIENCE)
    if ledger.failure is not None:
        raise ledger.failure


def safe(member: Process) -> bool:
    """Whether every copy is there and in sync, by what a member finds out."""
    try:
        answer = httpx.get(f"http://{member.told('http')}/healthz/safe", timeout=20)
    except httpx.TransportError:
        return False
    return answer.status_code == 200


def wait_safe(member: Process) -> None:
    wait_until(lambda: safe(member), "the cluster is safe", PATIENCE)


def owns(member: Process, asked: Process) -> int:
    """Partitions of a member, by what another one knows."""
    found = httpx.get(f"http://{asked.told('http')}/v1/members", timeout=20).json()["members"]
    return sum(each["owned_partitions"] for each in found if each["name"] == member.name)


def told(member: Process, *command: str) -> subprocess.CompletedProcess[str]:
    """`holdfast` on the command line."""
    where = ["--url", f"http://{member.told('http')}"]
    return subprocess.run(
        [sys.executable, "-c", MAIN, *command, *where],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_acknowledged_writes_outlive_one_kill_after_another(own: Grid) -> None:
    """Each is killed without a word when every copy is there, and another takes its place."""
    members = own.form(rejoin_grace_ms="500")
    with Ledger([each.port("cluster") for each in members]) as ledger:
        goes_on(ledger)
        for number in range(3):
            victim = members.pop(0)
            wait_safe(members[0])
            victim.kill()
            goes_on(ledger)
            living = ",".join(str(each.told("link")) for each in members)
            members.append(own.start(f"n{number}", may_found="false", initial=living))
            members[-1].wait_ready()
            goes_on(ledger)
    assert ledger.lost() == {}


def test_a_member_that_sleeps_longer_than_its_lease_serves_nothing_when_it_wakes(
    own: Grid,
) -> None:
    """1. An owner is stopped, and another one takes over. 2. It wakes, and is asked at once for
    what it owned: it has a lease no more, so it tells the newest value, or that it can't."""
    members = own.form()
    sleeper, rest = members[1], members[:1] + members[2:]
    with Ledger([each.port("cluster") for each in members]) as ledger:
        wait_safe(rest[0])
        goes_on(ledger)
        old = redis.Redis(port=sleeper.port("cluster"), protocol=2, socket_timeout=10)
        old.ping()
        sleeper.popen.send_signal(signal.SIGSTOP)
        wait_until(lambda: owns(sleeper, rest[0]) == 0, "others own what it had", PATIENCE)
        goes_on(ledger)
        before = dict(ledger.acknowledged)
        sleeper.popen.send_signal(signal.SIGCONT)
        for key, number in before.items():
            try:
                found = old.get(key)
            except redis.RedisError:
                continue
            assert isinstance(found, bytes)
            assert int(found) >= number, f"{key} is of the time before it slept"
        goes_on(ledger)
        old.close()
    assert ledger.lost() == {}


def test_joins_and_leaves_at_the_same_time(own: Grid) -> None:
    """1. Two come. 2. While they get their partitions, two of the founders are told to leave."""
    members = own.form()
    with Ledger([each.port("cluster") for each in members]) as ledger:
        goes_on(ledger)
        newcomers = [own.start(f"new{number}", may_found="false") for number in range(2)]
        for each in newcomers:
            each.wait_ready()
        for each in members[1:]:
            each.terminate()
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(lambda each: each.popen.wait(120), members[1:])) == [0, 0]
        goes_on(ledger)
        wait_safe(members[0])
    assert ledger.lost() == {}


def test_administrators_change_what_they_like_while_a_client_works(own: Grid) -> None:
    """The state by each of the three ways, and a lite member that is promoted and demoted."""
    members = own.form()
    first = members[0]
    lite = own.start("lite", may_found="false", kind="lite")
    lite.wait_ready()
    with Ledger([each.port("cluster") for each in members]) as ledger:
        goes_on(ledger)
        assert ask([first], "HOLDFAST.STATE", "STABLE_CLUSTER", "WAIT", "20000") in (True, b"OK")
        goes_on(ledger)
        secret = {"authorization": f"Bearer {SECRET}"}
        url = f"http://{first.told('http')}/v1/cluster/state"
        body = {"state": "FROZEN", "wait": 20}
        answer = httpx.put(url, json=body, headers=secret, timeout=60)
        assert answer.json()["state"] == "FROZEN", answer.text
        goes_on(ledger)
        done = told(first, "state", "set", "ACTIVE", "--secret-file", str(own.secret))
        assert (done.returncode, done.stdout.strip()) == (0, "ACTIVE"), done.stderr
        assert ask([lite], "HOLDFAST.PROMOTE") in (True, b"OK")
        wait_until(lambda: owns(lite, first) > 0, "it has partitions", PATIENCE)
        goes_on(ledger)
        done = told(first, "demote", "lite", "--secret-file", str(own.secret))
        assert done.returncode == 0, done.stderr
        assert owns(lite, first) == 0
        goes_on(ledger)
    assert ledger.lost() == {}


@pytest.fixture
def relayed(own: Grid) -> Iterator[tuple[Grid, Relays]]:
    """Three members whose links lead through relays."""
    ports = [int(each.rpartition(":")[2]) for each in own.initial]
    relays = Relays(ports)
    own.initial = [f"{HOST}:{port}" for port in ports]
    try:
        for number, port in enumerate(ports):
            own.start(f"m{number}", port, advertise=HOST)
        for each in own.members:
            each.wait_ready()
        yield own, relays
    finally:
        own.end()
        relays.close()


def test_slow_links_delay_writes_and_lose_none(relayed: tuple[Grid, Relays]) -> None:
    """1. Every byte between members takes 40 ms longer. 2. A member leaves meanwhile."""
    grid, relays = relayed
    members = grid.members
    relays.delay = 0.04
    for number in range(20):
        assert ask(members, "SET", f"slow:{number}", str(number)) in (True, b"OK")
    members[2].terminate()
    assert members[2].popen.wait(120) == 0
    rest = members[:2]
    assert [ask(rest, "GET", f"slow:{number}") for number in range(20)] == [
        str(number).encode() for number in range(20)
    ]


def test_a_member_that_is_cut_off_serves_nothing_and_comes_back(
    relayed: tuple[Grid, Relays],
) -> None:
    """1. Nobody reaches a member, and it reaches nobody. 2. The others go on. 3. Its links are
    whole again: it is a member like any other, and knows what was written meanwhile."""
    grid, relays = relayed
    members = grid.members
    alone, rest = members[2], members[:2]
    for number in range(20):
        ask(members, "SET", f"cut:{number}", "before")
    relays.break_links(int(grid.initial[2].rpartition(":")[2]))
    lonely = redis.Redis(port=alone.port(), protocol=2, socket_timeout=10)

    def refuses() -> bool:
        try:
            lonely.get("cut:1")
        except redis.RedisError:
            return True
        return False

    wait_until(refuses, "it has no lease", PATIENCE)
    for number in range(20):
        ask(rest, "SET", f"cut:{number}", "after")
    relays.break_links()
    wait_until(lambda: len(ask([alone], "HOLDFAST.MEMBERS")) == 3, "it is back", PATIENCE)
    assert [ask([alone], "GET", f"cut:{number}") for number in range(20)] == [b"after"] * 20
    lonely.close()
