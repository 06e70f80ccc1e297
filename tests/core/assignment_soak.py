"""Every size of cluster from 3 to 130 members and back, one member at a time.

    python -m tests.core.assignment_soak --partitions 271 2000 16384 --replicas 7

Run from the root of the repository. Each step starts from the table of the step before and is
judged by the oracle; the last lines tell the worst of each figure. Times are those of the
processor, so that other work on the machine doesn't count.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.assignment import Candidate, assign
from holdfast.core.distance import distance
from holdfast.ids import Replicas
from tests.core.assignment_oracle import (
    at_index,
    check_fresh,
    check_legal,
    check_owners,
    least,
    loads,
    members,
    spread,
    vacant,
)


@dataclass
class Worst:
    """The worst of each figure, and where."""

    figures: dict[str, tuple[float, str]] = field(default_factory=dict)

    def note(self, name: str, figure: float, where: str) -> None:
        """Keep it if it is worse."""
        if name not in self.figures or figure > self.figures[name][0]:
            self.figures[name] = (figure, where)

    def lines(self) -> list[str]:
        """As text."""
        return [f"  {name:28} {figure:9.3f}  {at}" for name, (figure, at) in self.figures.items()]


def timed(
    candidates: Sequence[Candidate], table: Sequence[Replicas], replicas: int
) -> tuple[tuple[Replicas, ...], float, float]:
    """Assign; the target, the time for all slices and for the longest, in milliseconds."""
    slices = assign(candidates, table, replicas)
    total = longest = 0.0
    while True:
        begun = time.process_time()
        try:
            next(slices)
        except StopIteration as finished:
            return finished.value, total, longest
        spent = 1000 * (time.process_time() - begun)
        total += spent
        longest = max(longest, spent)


def step(
    candidates: list[Candidate], table: Sequence[Replicas], replicas: int, worst: Worst
) -> tuple[Replicas, ...]:
    """One change, judged."""
    where = f"{len(candidates)} members"
    target, total, longest = timed(candidates, table, replicas)
    check_legal(candidates, target, replicas)
    check_owners(candidates, target)
    bound, way = least(candidates, table, replicas), distance(table, target)
    worst.note("moved / least possible", way.copies / bound if bound else 1 + way.copies, where)
    owners = at_index(candidates, target, 0)
    worst.note("owners, most - fewest", spread(owners), where)
    worst.note("owners' spread / mean, %", 100 * spread(owners) * len(owners) / len(target), where)
    worst.note("copies, most - fewest", spread(loads(candidates, target)), where)
    worst.note("indexes changed / moved", way.indexes / max(1, way.copies), where)
    worst.note("time, ms", total, where)
    worst.note("longest slice, ms", longest, where)
    return target


def sweep(partitions: int, replicas: int, groups: int | None, last: int) -> Worst:
    """Up and down once."""
    worst = Worst()
    everyone = members(last, groups)
    table = timed(everyone[:3], vacant(partitions, replicas), replicas)[0]
    for count in (*range(4, last + 1), *range(last - 1, 2, -1)):
        table = step(everyone[:count], table, replicas, worst)
        if count % 10 == 0:
            again = timed(everyone[:count], table, replicas)[0]
            assert again == table, "the target of the target is another"
            first = timed(everyone[:count], vacant(partitions, replicas), replicas)[0]
            check_fresh(everyone[:count], first, replicas)
    return worst


def main() -> int:
    """Sweep each of the sizes that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[271, 2000, 16384])
    parser.add_argument("--replicas", type=int, nargs="+", default=[7])
    parser.add_argument("--groups", type=int, default=None)
    parser.add_argument("--members", type=int, default=130)
    options = parser.parse_args()
    for partitions in options.partitions:
        for replicas in options.replicas:
            worst = sweep(partitions, replicas, options.groups, options.members)
            lines = [f"{partitions} partitions of {replicas} replicas, worst of all steps:"]
            sys.stdout.write("\n".join([*lines, *worst.lines(), ""]))
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
