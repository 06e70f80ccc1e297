"""How fast the files of a member are read at a restart, beside redis-server with the same data.

For values of 1 KB and of 100 B, one member's files of 271 partitions; pages are in the cache of the
kernel for both. redis-server loads an RDB file without compression, its fastest way.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from bench import storage
from bench.outcomes import Goal, Outcome, compared, measured
from bench.processes import program
from bench.running import Figure, Plan
from holdfast.core.events import Image

RECORDS: Final = 300_000
KEY_BYTES: Final = 16
PEER: Final = "redis-server loads its RDB"


def measure(plan: Plan) -> Iterator[Outcome]:
    """Both sizes."""
    program("redis-server")
    yield from rows(plan, 1_000, Goal(600, "MB/s"), "MB/s")
    yield from rows(plan, 100, Goal(1.0, "M rec/s"), "M rec/s")


def rows(plan: Plan, size: int, goal: Goal, unit: str) -> Iterator[Outcome]:
    """Recovered, taken over, and loaded by the peer, in turns."""
    count = plan.count(RECORDS)
    amount = count * (size + KEY_BYTES) / 1e6 if unit == "MB/s" else count / 1e6
    recover, core, theirs = [], [], []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        ours, peer = Path(folder, "ours"), Path(folder, "theirs")
        peer.mkdir()
        storage.write(ours, count, size)
        storage.redis_write(peer, count, size)
        for _ in plan.each_round(f"{count:,} values of {size} B are loaded"):
            images: list[Image | None] = []
            recover.append(storage.timed(partial(storage.load_into, images, ours)))
            core.append(storage.timed(partial(storage.take_over, images)))
            theirs.append(storage.redis_load(peer))
    note = f"then the core takes over in {statistics.median(core):.2f} s"
    rates = [amount / each for each in recover]
    yield measured(f"files are loaded, values of {size} B", goal, rates, unit, note)
    speeds = [rates, [amount / each for each in theirs]]
    yield compared(f"files are loaded, values of {size} B", Goal(2.0), PEER, speeds, unit, note)


FIGURES: Iterable[Figure] = (
    Figure("loading", "a member's files are loaded, beside redis-server", measure),
)
