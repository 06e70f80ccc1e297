"""What a command is: a function, and what one has to know before it may be called.

Rules (`design/2`, "The life of a SET")
---------------------------------------
* A command's function is given one partition's data, the circumstances of the call and the
  arguments, the command's name first, and returns the reply's bytes. It checks everything before
  it changes anything, and raises `CommandError` with Redis' own text.
* Time, randomness and the session come with the call: nothing else is looked at.
* A command of several keys is called once for each partition that they lie in, each time with the
  keys of that partition only; `Gather` says how the replies become one.
* A command that has to wait returns `Blocked`. It is called again, with the same arguments, when
  one of the keys was written, until it returns bytes or the time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from random import Random
from typing import Final

from holdfast.core.stores.replies import RESP2, Resp2
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError


class Trait(Flag):
    """What is true of a command."""

    READ = auto()
    """It looks at data."""
    WRITE = auto()
    """It may change data."""
    GROWS = auto()
    """It may need more memory, so it is refused when there is none."""
    BLOCKS = auto()
    """It may wait."""
    FAST = auto()
    """Its time does not depend on how much there is."""
    RANDOM = auto()
    """Its reply is a matter of chance."""
    KEYSPACE = auto()
    """It names no key: it concerns every partition, and its function one of them."""


class Gather(Enum):
    """How the replies of several partitions become one."""

    NONE = auto()
    """All keys have to be in one partition."""
    SUM = auto()
    """Integers are added."""
    ITEMS = auto()
    """Items of arrays, one a key, in the order of the keys."""
    OK = auto()
    """One OK for all."""
    JOIN = auto()
    """Arrays of which each has any number of items, one after the other."""


@dataclass(slots=True)
class Call:
    """The circumstances of one command."""

    now: int
    """Milliseconds of the wall clock."""
    random: Random
    dialect: Resp2 = RESP2
    session: bytes = b""
    """Who asks, for locks."""
    may_write: bool = True
    """False while writes are held back: then nothing may change, expired values not even go."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The command waits for one of these keys."""

    keys: tuple[bytes, ...]
    until: int
    """Milliseconds of the wall clock; 0 for ever."""
    otherwise: bytes
    """The reply when the time is up."""


Function = Callable[[Space, Call, list[bytes]], "bytes | Blocked"]


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    name: str
    """In capitals."""
    arity: int
    """Arguments with the name; negative: at least so many."""
    traits: Trait
    function: Function
    keys: tuple[int, int, int] = (1, 1, 1)
    """First key, last key (negative: from the end), step; as Redis says them."""
    gather: Gather = Gather.NONE

    @property
    def about(self) -> str:
        """How it is called."""
        return (self.function.__doc__ or "").partition("\n")[0]

    def fits(self, count: int) -> bool:
        """Whether this many arguments are right."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity

    def key_indexes(self, count: int) -> range:
        """Where the keys stand among this many arguments."""
        first, last, step = self.keys
        if not first:
            return range(0)
        return range(first, (last if last >= 0 else count + last) + 1, step or 1)

    def keys_in(self, args: list[bytes]) -> list[bytes]:
        """The keys among these arguments."""
        return [args[place] for place in self.key_indexes(len(args))]


def wrong_arity(name: str) -> CommandError:
    """Redis' text."""
    return CommandError(f"ERR wrong number of arguments for '{name.lower()}' command")


def options_of(args: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Options in capitals, each with its value; what is wrong with the first one is said first."""
    for at in range(0, len(args), 2):
        if at + 1 == len(args):
            raise CommandError(SYNTAX)
        yield args[at].upper(), args[at + 1]


WRONG_TYPE: Final = "WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_AN_INTEGER: Final = "ERR value is not an integer or out of range"
NOT_A_FLOAT: Final = "ERR value is not a valid float"
SYNTAX: Final = "ERR syntax error"
LOCKED: Final = "LOCKED the key is locked by another session; try again when its lock has ended"
TOO_LARGE: Final = "ERR the value would hold more than 64 MiB, the most that a value may"
