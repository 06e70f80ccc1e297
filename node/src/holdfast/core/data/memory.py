"""The memory that a member's data may take, and what follows when there is no more of it.

Rules (`design/4`: a memory limit for each member; never the end by the system)
-------------------------------------------------------------------------------
* What counts is the sum of what the fragments say of themselves (`Fragment.used`), backups' too.
  Each fragment keeps its own count, so a round adds up numbers and looks at no key.
* It is measured in rounds, the more seldom the more room there is: no round is left out in which
  more than `ROUND_BYTES` would have to come in before it is noticed.
* Shortly before the limit, names that may lose keys (`NameSettings.eviction`) lose some, where this
  member is their owner and may write. A slice takes a few keys of a few partitions, by chance;
  while slices help, the next comes soon.
* Beyond the limit, and until a little is free again, commands that need more memory are refused
  (`Trait.GROWS`), with Redis' words. Reads, deletions and all else go on, and so does what other
  members send: a limit is the owner's.
* The limit bounds data. What connections, journals and the interpreter take comes on top of it.

States
------
           used > limit
    room ─────────────────────────► full
         ◄─────────────────────────
           used <= limit, less a 64th

What can go wrong
-----------------
*More comes in during one round than there was room for.* The next one notices; the limit that a
shell sets leaves a quarter of the machine for that. *Everything that may go is locked.* Then
nothing goes, and what grows is refused. *A fast path does not ask.* What is full is part of what
shuts all gates (`DataService.look_anew`).
"""

from __future__ import annotations

from typing import Final

from holdfast.core.context import Context
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.plane import Serves
from holdfast.core.effects import NoticeKind
from holdfast.core.serving import Serving
from holdfast.core.stores.command import Call
from holdfast.core.stores.eviction import evict_bytes
from holdfast.core.stores.fragment import Fragment

MEASURE: Final = "measure what the data takes"
ROUND_MS: Final = 100
ROUNDS_APART_MAX: Final = 10
ROUND_BYTES: Final = 32 << 20
"""The most that is expected to come in during a round."""
SOON_MS: Final = 5
"""Between two slices of an eviction that goes on."""
SLICE_KEYS: Final = 256
SLICE_PARTITIONS: Final = 64
EASE: Final = 16
"""Eviction begins when less than this part of the limit is left."""
FREE_AGAIN: Final = 64
"""What is full is so until this part of the limit is free."""


class Memory:
    """Keeps what the data takes below its limit."""

    def __init__(self, context: Context, holdings: Holdings, serves: Serves) -> None:
        self.context = context
        self.holdings = holdings
        self.used = 0
        """Bytes, as measured last; nothing is measured without a limit."""
        self._serves = serves

    def advance(self, call: Call) -> None:
        """A round, when it is time."""
        limit, context = self.context.config.memory_max_bytes, self.context
        waits = context.timers.running(MEASURE) and not context.timers.due(MEASURE, context.now)
        if not limit or waits:
            return
        self.used = self.measure()
        wanted = self.used - limit + limit // EASE
        freed = evict_bytes(self._mine(call), call, wanted, SLICE_KEYS) if wanted > 0 else 0
        self.used -= freed
        self._judge(limit)
        after = SOON_MS if 0 < freed < wanted else ROUND_MS * _rounds_apart(limit - self.used)
        context.timers.set(MEASURE, context.now + after)

    def measure(self) -> int:
        """What all data here takes now, roughly."""
        here = self.holdings.here.values()
        return sum([fragment.used for holding in here for fragment in holding.space])

    def _judge(self, limit: int) -> None:
        free_from = limit - limit // FREE_AGAIN if self.context.memory_full else limit
        full = self.used > free_from
        if full != self.context.memory_full:
            self.context.memory_full = full
            kind = NoticeKind.MEMORY_FULL if full else NoticeKind.MEMORY_FREE
            detail = f"the data takes {self.used} of {limit} bytes"
            self.context.notice(kind, "memory", detail)

    def _mine(self, call: Call) -> list[Fragment]:
        """Where I may remove keys; some of it, by chance."""
        now, here = self.context.now, list(self.holdings.here.values())
        return [
            fragment
            for holding in call.random.sample(here, min(len(here), SLICE_PARTITIONS))
            if holding.reign and self._serves(holding.partition, now) is Serving.ALL
            for fragment in holding.space
        ]


def _rounds_apart(room: int) -> int:
    """How many rounds may pass before the next has to look."""
    return min(max(room // ROUND_BYTES, 1), ROUNDS_APART_MAX)
