"""Members of Holdfast, as the bench starts them: their defaults, except for what a figure names."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import httpx
import redis

from bench import package
from bench.processes import HOST, Process, Stage, wait_for
from holdfast.shell.free_ports import free_ports

MAIN: Final = "import sys; from holdfast.cli.main import main; sys.exit(main())"
LOOK_SECONDS: Final = 0.05
SAFE_SECONDS: Final = 300.0
PATIENT_SECONDS: Final = 600.0


class Member:
    """One process."""

    def __init__(self, process: Process, ports: dict[str, int]) -> None:
        self.process = process
        self.name = process.name
        self.plain, self.cluster = ports["plain"], ports["cluster"]
        self.address = f"{HOST}:{ports['member']}"
        self.url = f"http://{HOST}:{ports['http']}"
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=120)

    def get(self, path: str) -> Any:
        """What it answers over HTTP."""
        answer = self.http.get(path)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The same of a wish."""
        answer = self.http.post(path, json=body, timeout=PATIENT_SECONDS)
        answer.raise_for_status()
        return answer.json()

    def holds(self, probe: str) -> bool:
        """Whether a probe holds; not, if it does not answer."""
        self.process.check_alive()
        try:
            return self.http.get(f"/healthz/{probe}").status_code == 200
        except httpx.HTTPError:
            return False

    def ready(self) -> bool:
        """Whether it serves."""
        return self.holds("ready")


class Grid:
    """A cluster of them."""

    def __init__(self, stage: Stage, name: str, **settings: str) -> None:
        self._stage = stage
        self.name = name
        self._settings = settings
        self._known: list[str] = []
        """Whom a member asks for the cluster."""
        self.members: list[Member] = []

    def form(self, count: int) -> Grid:
        """Start so many at once, and wait until all serve and every copy is there."""
        ports = free_ports(HOST, 4 * count)
        self._known = [f"{HOST}:{port}" for port in ports[:count]]
        for number in range(count):
            mine = dict(
                zip(("plain", "cluster", "http"), ports[count + 3 * number :], strict=False)
            )
            self._start(f"{self.name}-{number}", {"member": ports[number], **mine})
        for member in self.members:
            wait_for(member.ready, f"{member.name} serves")
        self.wait_safe()
        return self

    def add(self) -> Member:
        """Start one more; it is not waited for. It asks who lives: the founders may all be gone."""
        self._known = [member.address for member in self.members]
        ports = dict(zip(("member", "plain", "cluster", "http"), free_ports(HOST, 4), strict=True))
        return self._start(f"{self.name}-{len(self._stage.processes)}", ports)

    def _start(self, name: str, ports: dict[str, int]) -> Member:
        environment = {key: value for key, value in os.environ.items() if "HOLDFAST" not in key}
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(package.place()), *filter(None, [environment.get("PYTHONPATH")])]
        )
        given = {
            "name": name,
            "group": name,
            "initial": ",".join(self._known),
            "log_format": "json",
            "processes": "0",  # the member itself is what is measured, and killed
            **{f"port_{kind}": str(port) for kind, port in ports.items()},
            **self._settings,
        }
        if "data_dir" in given:
            given["data_dir"] = str(Path(given["data_dir"]) / name)
        flags = ["--config", given.pop("config")] if "config" in given else []
        environment |= {f"HOLDFAST_{key.upper()}": value for key, value in given.items()}
        program = [sys.executable, "-c", MAIN, "member", *flags]
        process = self._stage.start(name, program, environment)
        member = Member(process, ports)
        self.members.append(member)
        return member

    def remove(self, member: Member) -> None:
        """It is gone; forget it."""
        self.members.remove(member)
        member.http.close()

    def wait_safe(self, seconds: float = SAFE_SECONDS) -> None:
        """Until every promised copy is there and nothing moves."""
        first = self.members[0]
        wait_for(lambda: first.holds("safe"), f"{self.name} is safe", seconds, LOOK_SECONDS)

    def view(self) -> list[dict[str, Any]]:
        """The members as the first one knows them."""
        found: list[dict[str, Any]] = self.members[0].get("/v1/members")["members"]
        return found

    def copies(self, name: str) -> float:
        """Copies of partitions that a member has, over partitions. Rows are longer than the names
        have backups: what is at a further index has no data."""
        known = next(each["id"] for each in self.view() if each["name"] == name)
        answer = self.members[0].get("/v1/partitions?health=false")
        rows: list[dict[str, Any]] = answer["partitions"]
        last = int(self._settings["backup_count"])
        held: int = sum(
            each["member"] == known and each["index"] <= last
            for row in rows
            for each in row["replicas"]
        )
        return held / len(rows)


def owner_of(grid: Grid, slot: int) -> Member:
    """The member that owns a slot."""
    with redis.Redis(port=grid.members[0].cluster, protocol=2) as client:
        for first, last, (_, port, *_), *_ in client.execute_command("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(each for each in grid.members if each.cluster == port)
    raise LookupError(f"nobody owns slot {slot}")


def alone(stage: Stage, **settings: str) -> Member:
    """One member; returns when a client is served, having noted when that was."""
    grid = Grid(stage, "alone", **{"backup_count": "0", **settings})
    member = grid.add()
    wait_served(member.process, member.plain)
    return member


def wait_served(process: Process, port: int) -> float:
    """Until a client's write is done; seconds since the process was started."""

    def served() -> bool:
        process.check_alive()
        try:
            with redis.Redis(port=port, protocol=2, socket_timeout=1) as client:
                return bool(client.set("ready", "yes"))
        except redis.RedisError:
            return False

    wait_for(served, f"{process.name} serves")
    return time.monotonic() - process.started_at
