"""Real commands in processes of their own."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from holdfast.shell.supervisor.layout import Ports

PATIENCE_SECONDS = 200.0
HOST = "127.0.0.1"


def popen(*arguments: str, errors: int) -> subprocess.Popen[str]:
    """Start a `holdfast` command that knows nothing of the environment's settings."""
    command = [sys.executable, "-m", "holdfast.cli", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=errors
    )


class Running:
    """One `holdfast` command that runs, and each line that it prints."""

    def __init__(self, *arguments: str) -> None:
        self.process = popen(*arguments, errors=subprocess.PIPE)
        self.errors: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self._lines.put)),
            threading.Thread(target=self._read, args=(self.process.stderr, self._take_error)),
        ]
        for reader in self._readers:
            reader.start()

    def _take_error(self, line: str | None) -> None:
        if line is not None:
            self.errors.append(line)

    @staticmethod
    def _read(stream: Any, take: Callable[[str | None], None]) -> None:
        with stream:
            for line in stream:
                take(line.rstrip("\n"))
        take(None)

    def line(self) -> str:
        """The next line of standard output."""
        try:
            line = self._lines.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            raise AssertionError(f"it says nothing: {self.errors}") from None
        assert line is not None, f"it ended: {self.errors}"
        return line

    def event(self) -> dict[str, Any]:
        """The next line, as JSON."""
        found: dict[str, Any] = json.loads(self.line())
        return found

    def events_until(self, *wanted: tuple[str, str]) -> list[dict[str, Any]]:
        """Events up to the one with which all wanted (name, event) pairs were seen."""
        found: list[dict[str, Any]] = []
        missing = set(wanted)
        while missing:
            found.append(self.event())
            missing.discard((found[-1].get("name", ""), found[-1]["event"]))
        return found

    def stop(self, number: signal.Signals) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """Kill what is left, and read to the end."""
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(PATIENCE_SECONDS)


def ports_of(member: dict[str, Any]) -> Ports:
    """Of a member in the first line of `holdfast dev --output json`."""
    ports = member["ports"]
    return Ports(ports["plain"], ports["cluster"], ports["http"], ports["member"])
