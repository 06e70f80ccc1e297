"""What has had its time goes: found by the owner's own rounds, not only by who looks for it.

Rules (seed 004: a backup does nothing by itself)
-------------------------------------------------
* Only the owner decides that a value has expired, and removes it by a mutation.
* A value expires at its expiry, or when nobody used it for the idle time of its name.
* Expiries wait in each fragment's heap. A value that was written anew or removed leaves its old
  entry behind: an entry counts only while its key still has that expiry. Whatever brings a value
  with an expiry, a command, a mutation or a block, pushes an entry, so a backup that becomes the
  owner has them all; `Fragment` sweeps the heap when the old entries outnumber the keys.
* Idle keys are looked for at random, a few at a time, each once before any comes twice (`draw`):
  in which order they were used is not kept. An owner that has just begun does not know when a key
  was last used, and counts from its first look.
* A round is bounded: it looks at `budget` entries and as many idle keys. What is left is due in the
  next; a read does not see it either way.

States
------
         written with an expiry                  its moment, or its idle time
        ───────────────────────▶ living ────────────────────────────────▶ due
                                  ▲  │                                     │
                 used, refreshed  └──┘       looked for, or a round: GONE  ▼  to the backups

What can go wrong
-----------------
*The owner dies before its round.* What was due is due at its backup too: the moment is in the
record. *The clock of the next owner is behind.* Then a value lives that much longer; what was
removed stays removed. *Writes are held back.* What is due is not seen, and goes later.
"""

from __future__ import annotations

from heapq import heappop
from random import Random
from typing import Final

from holdfast.core.stores.command import Call
from holdfast.core.stores.fragment import Fragment, Value, expiry_of_value
from holdfast.core.stores.record import NEVER
from holdfast.core.stores.space import Space

IDLE_MIN: Final = 1
"""Keys that a round looks at in each name with an idle time, however many names there are."""


def has_expired(fragment: Fragment, key: bytes, value: Value, now: int) -> bool:
    """Its time has come, or nobody used it for as long as its name allows."""
    expiry = expiry_of_value(value)
    if expiry and expiry <= now:
        return True
    idle = fragment.settings.idle_ms
    return bool(idle) and fragment.touched.setdefault(key, now) + idle <= now


def purge(space: Space, call: Call, budget: int) -> int:
    """One round: remove what has expired; how much was removed."""
    before = sum(map(len, space))
    left = budget
    for fragment in space.shown():  # marks of jobs end with what belongs to them (`staging`)
        left -= expire_due(fragment, call.now, left)
    idle = [fragment for fragment in space if fragment.settings.idle_ms]
    for fragment in idle:
        _expire_idle(fragment, call, max(IDLE_MIN, budget // len(idle)))
    return before - sum(map(len, space))


def expire_due(fragment: Fragment, now: int, budget: int) -> int:
    """Remove values whose time has come; how many entries of the heap were looked at."""
    heap = fragment.expiring
    looked = 0
    while heap and heap[0][0] <= now and looked < budget:
        expiry, key = heappop(heap)
        looked += 1
        value = fragment.records.get(key)
        if value is not None and expiry_of_value(value) == expiry:
            fragment.remove(key)
    return looked


def next_expiry(space: Space) -> int:
    """No value and no lock ends before this moment, idle values apart; `NEVER`."""
    heaps = (heap for fragment in space for heap in (fragment.expiring, fragment.unlocking))
    return min((heap[0][0] for heap in heaps if heap), default=NEVER)


def draw(fragment: Fragment, chance: Random) -> bytes | None:
    """A key at random, none twice before each had its turn; None where there is none.

    A dictionary gives no key at random without a walk. So all its keys are put into an urn, are
    drawn from there without putting them back, and the urn is filled again when it is empty: one
    copied reference a draw. Keys that came later wait for the next filling; keys that have gone
    are thrown away when they are drawn.
    """
    while fragment.records:
        if not fragment.urn:
            fragment.urn = list(fragment.records)
        urn = fragment.urn
        at = int(chance.random() * len(urn))
        key, urn[at] = urn[at], urn[-1]
        urn.pop()
        if key in fragment.records:
            return key
    return None


def _expire_idle(fragment: Fragment, call: Call, budget: int) -> None:
    for _ in range(min(budget, len(fragment))):
        key = draw(fragment, call.random)
        if key is not None and has_expired(fragment, key, fragment.records[key], call.now):
            fragment.remove(key)
