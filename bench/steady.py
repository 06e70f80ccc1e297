"""A steady load in a process of its own, and what its operations say of a window of time."""

from __future__ import annotations

import json
import signal
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from bench.load import FIELDS
from bench.outcomes import longest_silence, percentile
from bench.processes import ROOT, Process, Stage, wait_for


class Row(NamedTuple):
    """One operation; times of the monotonic clock."""

    key: int
    write: bool
    due: float
    sent: float
    ended: float
    done: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client saw in a window, in milliseconds; from sending to the last reply."""

    operations: int
    errors: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    silence_ms: float


def window(rows: Sequence[Row], begin: float, end: float) -> Seen:
    """Of all operations that were under way in it."""
    found = [row for row in rows if row.sent <= end and row.ended >= begin]
    times = [1_000 * (row.ended - row.sent) for row in found]
    return Seen(
        operations=len(found),
        errors=sum(not row.done for row in found),
        p50_ms=percentile(times, 0.5),
        p99_ms=percentile(times, 0.99),
        longest_ms=max(times),
        silence_ms=1_000 * longest_silence([row.ended for row in found if row.done], begin, end),
    )


def rows_of(file: Path) -> list[Row]:
    """As `bench.load` has written them."""
    numbers = array("d")
    numbers.frombytes(file.read_bytes())
    return [
        Row(int(key), bool(write), due, sent, ended, bool(done))
        for key, write, due, sent, ended, done in zip(*[iter(numbers)] * FIELDS, strict=True)
    ]


class Steady:
    """One such load."""

    def __init__(
        self, stage: Stage, ports: Sequence[int], *, keys: int, rate: int, size: int, ledger: bool
    ) -> None:
        addresses = [f"127.0.0.1:{port}" for port in ports]
        numbers = ["--keys", str(keys), "--rate", str(rate), "--size", str(size)]
        program = [sys.executable, str(ROOT / "bench" / "load.py"), "operations", *addresses]
        self._process: Process = stage.start("load", program + numbers + ["--ledger"] * ledger)
        self.rows: list[Row] = []
        self.told: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def stop(self) -> None:
        """No more operations; what happened is known then."""
        self._process.check_alive()
        self._process.popen.send_signal(signal.SIGTERM)
        wait_for(lambda: self._process.popen.poll() is not None, "the load ends", step=0.02)
        if self._process.popen.returncode:
            raise RuntimeError(f"the load failed: {self._process.said()[-2_000:]}")
        file = self._process.log.parent / "operations"
        self.rows = rows_of(file)
        self.told = json.loads(Path(f"{file}.json").read_text(encoding="utf-8"))
        if self.told["unfinished"]:
            raise RuntimeError(f"{self.told['unfinished']} operations never ended")
