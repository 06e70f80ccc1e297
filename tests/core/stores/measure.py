"""How fast GET and SET of a plain string are, beside a bare dictionary.

    python -m tests.core.stores.measure

Prints microseconds of a call and the ratio to a loop that does the same with a dictionary alone.
The microseconds are this machine's; the ratios tell of a change.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from holdfast.core.stores.catalogue import CATALOGUE
from holdfast.core.stores.command import Call
from holdfast.core.stores.settings import NameSettings
from holdfast.core.stores.space import Space

ROUNDS: Final = 300_000
REPEATS: Final = 5
KEYS: Final = 10_000
BATCH: Final = 200
"""Calls between two times that the mutations are taken, as once a turn of a member's loop."""


def fastest(work: Callable[[], None]) -> float:
    """Microseconds a round, the best of a few times: all else is the machine's other work."""
    best = float("inf")
    for _ in range(REPEATS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best / ROUNDS * 1e6


def bare(calls: list[list[bytes]], *, write: bool) -> Callable[[], None]:
    """The same calls on a dictionary."""
    records = {args[1]: args[-1] for args in calls}

    def read() -> None:
        for args in calls:
            records[args[1]]

    def written() -> None:
        for args in calls:
            records[args[1]] = args[-1]

    return written if write else read


def commands(space: Space, calls: list[list[bytes]]) -> Callable[[], None]:
    """The calls as commands."""
    call = Call(now=1, random=random.Random(1))
    function = CATALOGUE[calls[0][0]].function

    batches = [calls[at : at + BATCH] for at in range(0, len(calls), BATCH)]

    def work() -> None:
        for batch in batches:
            for args in batch:
                function(space, call, args)
            for fragment in space:
                fragment.take()

    return work


def main() -> None:
    """Measure and print."""
    space = Space(lambda _: NameSettings(), 1)
    keys = [b"users:%d" % (number % KEYS) for number in range(ROUNDS)]
    for name, rest, write in ((b"SET", [b"x" * 100], True), (b"GET", [], False)):
        calls = [[name, key, *rest] for key in keys]
        base = fastest(bare(calls, write=write))
        took = fastest(commands(space, calls))
        text = f"{name.decode()} {took:.3f} us, a dictionary {base:.3f} us: {took / base:.1f} times"
        print(text)  # noqa: T201  that is what it is for


if __name__ == "__main__":
    main()
