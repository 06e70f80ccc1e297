"""What parallel migrations gain on a link of a millisecond, in the simulator's virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bench.outcomes import Goal, Outcome, amount
from bench.parallel_world import LINK_US, MEMBERS, PARTITIONS, seconds
from bench.running import Figure, Plan, say

WAYS: Final = (1, 5, 10, 20)
GOALS: Final = {10: Goal(4.0)}


def measure(_: Plan) -> Iterator[Outcome]:
    """Each number of migrations once: virtual time has no noise."""
    took = {}
    for parallel in WAYS:
        say(f"a member joins {MEMBERS}, {parallel} migrations at a time")
        took[parallel] = seconds(parallel)
    serial = took[1]
    for parallel in WAYS[1:]:
        yield Outcome(
            figure=f"speed-up of {parallel} parallel migrations, {MEMBERS} to {MEMBERS + 1}",
            goal=GOALS.get(parallel),
            reached=serial / took[parallel],
            unit="x",
            peer="one at a time",
            ours=(serial,),
            theirs=(took[parallel],),
            absolute=f"{amount(serial, 's')} : {amount(took[parallel], 's')}",
            note=f"virtual time; {PARTITIONS} partitions, a link of {LINK_US // 1_000} ms",
        )


FIGURES: Iterable[Figure] = (
    Figure("parallel", "speed-up of parallel migrations on a slow link (simulated)", measure),
)
