"""Partitions that may be served right now, so that a command need not ask all over again.

Rules (`design/3` §1, §4)
-------------------------
* A gate says: I am the owner, I may read and write, my reign has begun and its barrier is over,
  and there is room for what is written.
  It knows the data, and the streams to the members that a write waits for.
* Nothing of this changes but by an event for the control plane, or with time. So all gates are shut
  before and after such an event, and none is open longer than the node's lease: `Node.step` goes
  through its machines when that is over, whatever the event was.
* What has no gate is looked at command by command (`plane`), and gets one if it is as above.

States
------
Of a partition: unknown, or open. A gate is never changed.

What can go wrong
-----------------
*A gate outlives what it says.* Then a member serves what it does not own. So what opens a gate is
written in one place (`Plane.check`), and what shuts them all too (`DataService.look_anew`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, cast

from holdfast.core.data.streams import Stream
from holdfast.core.data.tickets import AGAIN, UNKNOWN
from holdfast.core.stores.catalogue import CATALOGUE
from holdfast.core.stores.command import Call, Command, Trait
from holdfast.core.stores.plain import PLAIN, Plain
from holdfast.core.stores.space import Space
from holdfast.ids import PartitionId

SLOT_BITS: Final = 14
SLOTS: Final = 1 << SLOT_BITS
SLOT_MASK: Final = SLOTS - 1
"""A slot is the last bits of a CRC-16."""
MANY: Final = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """One partition that may be served."""

    partition: PartitionId
    space: Space
    streams: tuple[Stream, ...]
    """Whom a write waits for; of an open gate, whatever the key's name."""


Answering = Callable[[Space, Call, list[bytes]], bytes]
"""A command's function that never waits."""


class Single(NamedTuple):
    """A command of one key, which stands after its name, that never waits for it."""

    function: Answering
    least: int
    most: int
    """Arguments with the name."""
    otherwise: bytes
    """The reply if it has changed something, and nobody knows whether that is safe."""
    plain: Plain | None
    """What may answer before it, in the plain case."""


def _single(name: bytes, command: Command) -> Single:
    most = command.arity if command.arity > 0 else MANY
    function = cast("Answering", command.function)
    otherwise = UNKNOWN if Trait.WRITE in command.traits else AGAIN
    return Single(function, abs(command.arity), most, otherwise, PLAIN.get(name))


SINGLES: Final = {
    name: _single(name, command)
    for name, command in CATALOGUE.items()
    if command.keys == (1, 1, 1) and Trait.BLOCKS not in command.traits
}
"""By name, as in the catalogue."""


NO_SINGLE: Final = SINGLES[b"GET"]._replace(least=MANY)
"""Of every other name: no number of arguments fits."""


@lru_cache(maxsize=16)
def partitions_of_slots(count: int) -> tuple[PartitionId, ...]:
    """Which of so many partitions a slot is in (`design/2`)."""
    numbers = [PartitionId(number) for number in range(count)]
    return tuple(numbers[slot * count >> SLOT_BITS] for slot in range(SLOTS))
