"""What the hot paths cost: `python -m tests.core.data.measure`.

Prints nanoseconds a call, the same beyond an empty method, and the ratio to a bare loop that puts
into a dict, measured in the same run; machines differ, ratios hardly.
"""

from __future__ import annotations

import sys
import timeit
import tracemalloc
from collections.abc import Callable

from holdfast.core.data.journal import Journal
from holdfast.core.data.merkle import Tree, differing, hash_of
from holdfast.core.data.vectors import Lineage, Vector, judge

COUNT = 10_000
KEYS = [b"users:%d" % number for number in range(COUNT)]
HASHES = [hash_of(key) for key in KEYS]
PAYLOADS = [b"value-%d" % number for number in range(COUNT)]
START = Lineage.starting(1, 0)


class Empty:
    """What calling a method costs by itself."""

    __slots__ = ()

    def update(self, key_hash: int, old_version: int, new_version: int) -> None:
        """Nothing."""


def best(run: Callable[[], None], calls: int) -> float:
    """Nanoseconds a call, in the least disturbed of some runs."""
    return min(timeit.repeat(run, number=1, repeat=15)) / calls * 1e9


def bare() -> None:
    """The yardstick."""
    store: dict[int, int] = {}
    for key_hash, version in zip(HASHES, range(COUNT), strict=True):
        store[key_hash] = version  # noqa: PERF403 - a loop is what is to be measured


def empty() -> None:
    """A write that does nothing."""
    update = Empty().update
    for key_hash, version in zip(HASHES, range(COUNT), strict=True):
        update(key_hash, version, version + 1)


def tree_update(version: int) -> Callable[[], None]:
    """Replacements, of small versions or large ones."""

    def run() -> None:
        update = Tree().update
        for key_hash, old in zip(HASHES, range(version, version + COUNT), strict=True):
            update(key_hash, old, old + 1)

    return run


def journal_append(entries_max: int) -> Callable[[], None]:
    """Appends to a ring of this size."""

    def run() -> None:
        append = Journal(START, 0, entries_max=entries_max).append
        for counter, key, payload in zip(range(1, COUNT + 1), KEYS, PAYLOADS, strict=True):
            append(counter, key, payload)

    return run


def advance(backups: int) -> Callable[[], None]:
    """The owner's count of its writes."""

    def run() -> None:
        count = Vector(1).advance
        for _ in range(COUNT):
            count(backups)

    return run


def judged() -> None:
    """A backup's verdict on the next operation."""
    held, incoming = Vector(1, 5, [5] * 6), Vector(1, 6, [6] * 6)
    for _ in range(COUNT):
        judge(held, incoming, 1)


def hashed() -> None:
    """Key hashes."""
    for key in KEYS:
        hash_of(key)


def memory_of_an_entry() -> float:
    """Bytes that a journal needs beside keys and payloads."""
    tracemalloc.start()
    journal = Journal(START, 0)
    for counter, key, payload in zip(range(1, COUNT + 1), KEYS, PAYLOADS, strict=True):
        journal.append(counter, key, payload)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / len(journal)


def compared(depth: int) -> str:
    """What one comparison costs each side."""
    tree = Tree(depth)
    for key_hash in HASHES:
        tree.update(key_hash, 0, 1)
    digest = tree.digest()

    def sends() -> None:
        tree.digest()

    def compares() -> None:
        differing(digest, tree)

    costs = best(sends, 1) / 1e3, best(compares, 1) / 1e3
    return f"depth {depth}: digest {costs[0]:.0f} us, differing {costs[1]:.0f} us"


def main() -> None:
    """Measure all and print a table."""
    yardstick, call = best(bare, COUNT), best(empty, COUNT)
    rows: list[tuple[str, Callable[[], None]]] = [
        ("empty method", empty),
        ("Tree.update", tree_update(1)),
        ("Tree.update, versions of 48 bits", tree_update(1 << 47)),
        ("hash_of", hashed),
        ("Journal.append, never full", journal_append(COUNT)),
        ("Journal.append, ring of 1000", journal_append(1000)),
        ("Vector.advance(1)", advance(1)),
        ("Vector.advance(3)", advance(3)),
        ("judge", judged),
    ]
    lines = [f"bare dict loop: {yardstick:.0f} ns", f"{'':34}{'ns':>7}{'beyond':>8}{'ratio':>7}"]
    for name, run in rows:
        cost = best(run, COUNT)
        lines.append(f"{name:34}{cost:7.0f}{cost - call:8.0f}{cost / yardstick:7.1f}")
    lines += [compared(depth) for depth in (10, 12, 16)]
    lines.append(f"journal: {memory_of_an_entry():.1f} bytes an entry beside key and payload")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
