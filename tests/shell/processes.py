"""Members as processes of their own on loopback: started, watched, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import redis
from redis import exceptions

from holdfast.shell.free_ports import free_ports
from tests.shell.waiting import wait_until

MAIN: Final = "import sys; from holdfast.cli.main import main; sys.exit(main())"
SECRET: Final = "a secret of these tests"
QUICK: Final = {
    "heartbeat_ms": "200",
    "lease_ms": "1500",
    "lease_margin_ms": "100",
    "claim_step_ms": "100",
    "retry_ms": "100",
    "partition_count": "64",
}
"""Times that make a cluster notice a death soon, and no pause of a machine that others use."""
NOT_NOW: Final = (
    exceptions.MovedError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
    exceptions.ConnectionError,
)
"""Answers of a member that can't answer now."""


@dataclass
class Process:
    """One `holdfast member`."""

    name: str
    log: Path
    popen: subprocess.Popen[bytes]
    _clients: list[redis.Redis] = field(default_factory=list)

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it has logged."""
        for line in self.log.read_text(encoding="utf-8").splitlines():
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    def told(self, key: str) -> Any:
        """The first value that a line has under this name, or None."""
        return next((line[key] for line in self.lines() if key in line), None)

    def says(self, text: str) -> bool:
        """Whether it has logged this."""
        return any(text in line["message"] for line in self.lines())

    def wait_ready(self) -> None:
        """Until it serves; told at once if it ends instead."""
        wait_until(
            lambda: self.told("ready") or self.popen.poll() is not None, f"{self.name} is ready"
        )
        assert self.told("ready"), self.log.read_text(encoding="utf-8")

    def port(self, kind: str = "plain") -> int:
        """Of `plain`, `cluster` or `link`."""
        return int(str(self.told(kind)).rpartition(":")[2])

    @property
    def client(self) -> redis.Redis:
        """A connection to its plain port."""
        if not self._clients:
            self._clients.append(redis.Redis(port=self.port(), protocol=2, socket_timeout=10))
        return self._clients[0]

    def terminate(self) -> None:
        """Ask it to leave."""
        self.popen.send_signal(signal.SIGTERM)

    def code(self) -> int:
        """Its exit code, once it has ended."""
        return self.popen.wait(timeout=20)

    def kill(self) -> None:
        """End it at once."""
        self.popen.kill()
        self.popen.wait()
        for each in self._clients:
            each.close()


class Grid:
    """Members of one cluster."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        self.members: list[Process] = []
        self.initial = [f"127.0.0.1:{port}" for port in free_ports("127.0.0.1", count)]
        self.secret = folder / "secret"
        self.secret.write_text(SECRET)

    def start(
        self, name: str, link: int = 0, arguments: Sequence[str] = (), **settings: str
    ) -> Process:
        """One more process; it is not waited for."""
        given = {
            "name": name,
            "group": name,
            "secret_file": str(self.secret),
            "initial": ",".join(self.initial),
            "port_plain": "0",
            "port_cluster": "0",
            "port_http": "0",
            "port_member": str(link),
            "log_format": "json",
            "processes": "0",
            **QUICK,
            **settings,
        }
        environment = {key: value for key, value in os.environ.items() if "HOLDFAST" not in key}
        environment |= {f"HOLDFAST_{key.upper()}": value for key, value in given.items()}
        log = self.folder / f"{name}.log"
        with log.open("wb") as target:
            popen = subprocess.Popen(
                [sys.executable, "-c", MAIN, "member", *arguments], stderr=target, env=environment
            )
        process = Process(name, log, popen)
        self.members.append(process)
        return process

    def form(self, **settings: str) -> list[Process]:
        """The founders, once they serve."""
        for number, address in enumerate(self.initial):
            self.start(f"m{number}", int(address.rpartition(":")[2]), **settings)
        for process in self.members:
            process.wait_ready()
        return list(self.members)

    def end(self) -> None:
        """Every process that was started."""
        for process in self.members:
            process.kill()


def ask(members: Sequence[Process], *command: str | bytes) -> Any:
    """What whoever may answer replies; whoever can't at this moment is asked again."""
    found: list[Any] = []

    def answered() -> bool:
        for member in members:
            try:
                found.append(member.client.execute_command(*command))  # type: ignore[no-untyped-call]
            except NOT_NOW:
                continue
            except redis.ResponseError as error:
                if not str(error).startswith("UNKNOWNOUTCOME"):
                    raise
                continue
            return True
        return False

    wait_until(answered, f"somebody answers {command!r}")
    return found[0]
