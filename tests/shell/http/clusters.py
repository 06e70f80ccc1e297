"""Clusters of real processes, for tests that talk to them: started, found, killed, ended.

A member takes free ports and says in its log which. The first founds the cluster; the others look
for it there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import httpx

from tests.shell.processes import MAIN, Process
from tests.shell.waiting import wait_until

ASK_SECONDS: Final = 180.0
SETTLE_SECONDS: Final = 180.0
SECRET: Final = "a secrét of some length"


class Running(Process):
    """One member's process, as it is seen over HTTP."""

    @cached_property
    def ends(self) -> dict[str, Any]:
        """Its ports, once it has them."""
        what = f"{self.name} says where it listens"
        wait_until(lambda: self.told("link") or self.popen.poll() is not None, what, SETTLE_SECONDS)
        assert self.told("link"), self.log.read_text(encoding="utf-8")
        return next(line for line in self.lines() if "link" in line)

    @property
    def url(self) -> str:
        """Its HTTP port."""
        return f"http://{self.ends['http']}"

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask it."""
        return self.ask("GET", path, b"", **headers)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> httpx.Response:
        """Ask it for anything."""
        named = httpx.Headers(headers, encoding="utf-8")
        return httpx.request(
            method, self.url + path, content=body, headers=named, timeout=ASK_SECONDS
        )

    def is_ready(self) -> bool:
        """Whether it serves applications."""
        try:
            return self.get("/healthz/ready").status_code == 200
        except httpx.TransportError:
            return False

    def is_safe(self) -> bool:
        """Whether the whole cluster is safe, by what this member finds out."""
        return self.get("/healthz/safe").status_code == 200

    def pause(self, *, on: bool) -> None:
        """Have it do nothing for a while."""
        self.popen.send_signal(signal.SIGSTOP if on else signal.SIGCONT)


class Processes:
    """Members that were started together."""

    def __init__(self, place: Path, *, secret: str = "", settings: str = "") -> None:
        self.place = place
        self.secret = secret
        self.members: list[Running] = []
        self.file = place / "member.toml"
        self.file.write_text(settings, encoding="utf-8")

    @property
    def credentials(self) -> dict[str, str]:
        """What changes of the cluster need."""
        return {"authorization": f"Bearer {self.secret}"} if self.secret else {}

    def start(self, name: str, *flags: str) -> Running:
        """One more member; it is not waited for."""
        first = self.members[0].ends["link"] if self.members else ""
        where = ["--initial", first, "--may-found", "false"] if first else []
        ports = [word for port in PORTS for word in (f"--port-{port}", "0")]
        log = self.place / f"{name}.log"
        command = [sys.executable, "-c", MAIN, "member", "--config", str(self.file)]
        command += ["--name", name, "--group", name, "--log-format", "json"]
        command += ["--processes", "0"]
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [*command, *ports, *where, *flags],
                stderr=out,
                env={**os.environ, "HOLDFAST_SECRET": self.secret},
            )
        running = Running(name, log, popen)
        self.members.append(running)
        return running

    def settle(self) -> None:
        """Wait until everyone serves and nothing moves."""
        for member in self.living():
            wait_until(member.is_ready, f"{member.name} is ready", SETTLE_SECONDS)
        wait_until(self.living()[0].is_safe, "the cluster is safe", SETTLE_SECONDS)

    def living(self) -> list[Running]:
        """Members whose process runs."""
        return [member for member in self.members if member.popen.poll() is None]

    def named(self, name: str) -> Running:
        """The newest of this name."""
        return next(member for member in reversed(self.members) if member.name == name)

    def master(self) -> Running:
        """Who leads, as the first member knows."""
        members = self.living()[0].get("/v1/members").json()["members"]
        return self.named(next(each["name"] for each in members if each["master"]))

    def others(self) -> list[Running]:
        """Everyone but the master."""
        master = self.master()
        return [member for member in self.living() if member is not master]

    def end(self) -> None:
        """All processes, at once."""
        for member in self.members:
            member.kill()


PORTS: Final = ("plain", "cluster", "http", "member")

ALONE: Final = """
partition_count = 16
[unnamed]
backups = 0
[names.users]
backups = 0
ttl_ms = 3600000
"""
SEVERAL: Final = """
partition_count = 32
forming_patience_ms = 100
retry_ms = 100
heartbeat_ms = 200
lease_ms = 3000
claim_step_ms = 100
rejoin_grace_ms = 0
"""

PATIENT: Final = SEVERAL.replace("rejoin_grace_ms = 0", "rejoin_grace_ms = 600000")
"""The same where nothing is moved after a death: who died is expected back."""


def alone(place: Path) -> Iterator[Processes]:
    """One member that promises no backups, without a secret."""
    processes = Processes(place, settings=ALONE)
    try:
        processes.start("one")
        processes.settle()
        yield processes
    finally:
        processes.end()


def several(place: Path, settings: str = SEVERAL) -> Iterator[Processes]:
    """Three data members and a lite one, with a secret."""
    processes = Processes(place, secret=SECRET, settings=settings)
    try:
        for name in ("one", "two", "three"):
            processes.start(name)
        processes.start("light", "--kind", "lite")
        processes.settle()
        yield processes
    finally:
        processes.end()
