"""`redis-benchmark`: how it is called, and what it prints."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.processes import program

CONNECTIONS: Final = 50
VALUE_BYTES: Final = 100
KEYS: Final = 100_000
LIMIT_SECONDS: Final = 300
CLUSTER_TIMES: Final = 6
"""So many times as much work with `--cluster`: it looks each quarter of a second whether it is
done, which was a tenth of the time, and more."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What one test reached."""

    rate: float
    """Commands a second."""
    p50_ms: float
    p99_ms: float
    longest_ms: float


def parse(text: str) -> dict[str, Speed]:
    """The results by the test's name. Lines that are no row of the table are remarks."""
    found: dict[str, Speed] = {}
    header: list[str] = []
    for row in csv.reader(line for line in text.splitlines() if line.startswith('"')):
        if row[0] == "test":
            header = row
        elif header:
            cells = dict(zip(header[1:], map(float, row[1:]), strict=True))
            found[row[0]] = Speed(
                cells["rps"],
                cells["p50_latency_ms"],
                cells["p99_latency_ms"],
                cells["max_latency_ms"],
            )
    if not found:
        raise ValueError(f"redis-benchmark printed no results: {text[:400]!r}")
    return found


def run(
    port: int,
    count: int,
    *,
    pipeline: int = 1,
    tests: Sequence[str] = (),
    command: Sequence[str] = (),
    cluster: bool = False,
) -> dict[str, Speed]:
    """Run it; either some of its own tests, or a command."""
    options = ["-h", "127.0.0.1", "-p", str(port), "-c", str(CONNECTIONS), "-P", str(pipeline)]
    options += ["-n", str(count), "-r", str(KEYS), "-d", str(VALUE_BYTES), "--csv"]
    options += ["--cluster"] * cluster
    options += ["-t", ",".join(tests)] if tests else []
    done = subprocess.run(
        [program("redis-benchmark"), *options, *command],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode or "Error" in done.stderr:
        raise RuntimeError(f"redis-benchmark failed: {done.stdout[-400:]}{done.stderr[-400:]}")
    return parse(done.stdout)
