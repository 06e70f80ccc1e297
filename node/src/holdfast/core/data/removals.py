"""What a journal has forgotten and no record shows: keys that went, locks that were let go.

Why (seed 003, "Tracking mutations"; docs/adr/0045)
---------------------------------------------------
The seed keeps "a set of changed and removed keys" for a member that is away, and counts what that
costs. Of a key that is there its record says by itself which mutation was the last (`record`): a
copy that has everything up to a point lacks what has a later version, and nobody has to remember
that. Only what is *not* there leaves no trace. So of the mutations that a journal forgets, these
alone are kept: that a key was removed, or a lock let go.

    mutations      1    2    3    4    5    6    7    8    9   10
                   put  put  gone put  gone put  put  put  put  gone
                   ├──── forgotten ──────────┤├──── the journal ───┤
    kept                     3         5

    changed since 4:  what has a version above 4, and what 5 and 10 removed

Rules
-----
* Everything that went after `base` is here, up to where the journal begins.
* All keys at once (EMPTIED) are not listed: `base` moves there. So it does where too many are kept.

What can go wrong
-----------------
*A key went and is there again*: it is named twice, once by its version. Whoever asks looks what has
become of it by then, so that is no harm.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from holdfast.core.stores.record import (
    FLAGS_AT,
    FREE,
    NO_FLAGS,
    PLAIN_AT,
    WENT,
    Kind,
    is_free,
    kind_of,
)

KEPT_MAX: Final = 2_048
KEPT_BYTES_MAX: Final = 1 << 18
"""Of their keys."""
TRIMMED_SHARE: Final = 8
"""One part in so many goes where too many are kept; of the journal, too."""


class Removals:
    """Keys that went and locks that were let go, of the latest mutations that are forgotten."""

    __slots__ = ("_gone", "_kept_max", "_numbers", "_size", "base")

    def __init__(self, base: int, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._numbers: list[int] = []
        self._gone: list[tuple[bytes, bytes]] = []
        self._size = 0
        self.base = base

    def __len__(self) -> int:
        return len(self._gone)

    def restart(self, base: int) -> None:
        """What came before is not known."""
        self._numbers.clear()
        self._gone.clear()
        self._size = 0
        self.base = base

    def note(self, number: int, key: bytes, record: bytes) -> None:
        """The journal forgets this mutation."""
        flags = record[FLAGS_AT:PLAIN_AT]
        if flags == NO_FLAGS or not flags:
            return
        kind = kind_of(record)
        if kind is Kind.EMPTIED:
            self.restart(number)
        elif kind is Kind.GONE:
            self._keep(number, key, WENT)
        elif kind is Kind.LOCK and is_free(record):
            self._keep(number, key, FREE)

    def _keep(self, number: int, key: bytes, gone: bytes) -> None:
        self._numbers.append(number)
        self._gone.append((key, gone))
        self._size += len(key)
        while len(self._gone) > self._kept_max or self._size > KEPT_BYTES_MAX:
            self._drop(len(self._gone) // TRIMMED_SHARE or 1)

    def _drop(self, count: int) -> None:
        self.base = self._numbers[count - 1]
        self._size -= sum(len(key) for key, _ in self._gone[:count])
        del self._numbers[:count], self._gone[:count]

    def end_at(self, number: int) -> None:
        """What came after this is in the journal again."""
        if number <= self.base:
            self.restart(number)
            return
        kept = bisect_right(self._numbers, number)
        self._size -= sum(len(key) for key, _ in self._gone[kept:])
        del self._numbers[kept:], self._gone[kept:]

    def since(self, number: int) -> list[tuple[bytes, bytes]] | None:
        """Keys and locks that went after that mutation; None where that is not known."""
        if number < self.base:
            return None
        return self._gone[bisect_right(self._numbers, number) :]
