"""A million random rows through the planner and its oracle.

    python -m tests.core.planner_soak --inputs 1000000 --seed 1

Run from the root of the repository. Each input is drawn from its own number and the seed, so a
failure is repeated by `--only NUMBER` whatever the number of processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter

from holdfast.core.planner import BACKUPS_MAX, plan, repair_cycles
from tests.core.plan_checker import Broken, check_plan, kept_slots, must
from tests.core.plan_inputs import plain, random_pair

SLICE = 5_000


def check_one(seed: int, number: int) -> str:
    """Plan and judge one input; says what it was."""
    rng = random.Random(f"{seed} {number}")
    current, wanted = random_pair(rng)
    backups = rng.choice((BACKUPS_MAX, rng.randrange(BACKUPS_MAX)))
    story = f"input {number}: {current} -> {wanted}, backups {backups}"
    try:
        target, kept = repair_cycles(current, wanted)
        must(kept == kept_slots(current, wanted), f"{kept} are the kept slots", wanted)
        check_plan(current, target, plain(plan(current, target, backups)), backups)
    except Exception as error:
        raise Broken(f"{story}: {error!r}") from error
    return "dense" if None not in (*current, *wanted) else "with gaps"


def check_slice(work: tuple[int, int, int]) -> Counter[str]:
    """Judge the inputs `first` to `last` - 1."""
    seed, first, last = work
    return Counter(check_one(seed, number) for number in range(first, last))


def main() -> int:
    """Share the inputs among processes and add up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", type=int, default=None, help="one input alone")
    options = parser.parse_args()
    if options.only is not None:
        check_one(options.seed, options.only)
        return 0
    begun = time.perf_counter()
    work = [
        (options.seed, first, min(first + SLICE, options.inputs))
        for first in range(0, options.inputs, SLICE)
    ]
    total: Counter[str] = Counter()
    with multiprocessing.Pool(options.processes) as pool:
        for counts in pool.imap_unordered(check_slice, work):
            total += counts
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
    seconds = time.perf_counter() - begun
    sys.stdout.write(f"{total.total()} plans ({kinds}) keep every rule, {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
