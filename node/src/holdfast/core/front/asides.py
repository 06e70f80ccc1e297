"""Commands that are not about keys: what one is, and what it may look at.

Rules (`design/4`, "connection" and "cluster")
----------------------------------------------
* An *aside* is given what it may look at, the session and the arguments, its name first, and
  returns the reply's bytes. It raises `CommandError` with Redis' own text, before it has changed
  anything.
* One with subcommands is a table of asides: each has its own arity, whose count includes both
  words, as Redis counts.
* What can't be answered within the step is `Blocked` with nothing to wait for: it is asked again in
  each step until it has its reply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from holdfast.core.data.sessions import Session
from holdfast.core.stores.command import Blocked, Trait, wrong_arity
from holdfast.core.stores.replies import array, simple
from holdfast.errors import CommandError

Looked = TypeVar("Looked")
TEXT_MAX: Final = 128
Subcommand = tuple[int, Callable[[Looked, Session, list[bytes]], "bytes | Blocked"]]
"""An arity, and what it does."""


@dataclass(frozen=True, slots=True)
class Aside(Generic[Looked]):
    """A command without keys; `Looked` is what it may look at."""

    name: str
    """In capitals."""
    arity: int
    """Arguments with the name; negative: at least so many."""
    traits: Trait
    function: Callable[[Looked, Session, list[bytes]], bytes | Blocked]
    keys: tuple[int, int, int] = (0, 0, 0)
    """As Redis says them; here nobody looks for keys."""
    in_multi: bool = True
    """Whether it may stand in a transaction: not if it has to ask other members."""

    subcommands: Mapping[bytes, Subcommand[Looked]] | None = None
    """By name, in capitals, each with its arity."""

    @property
    def about(self) -> str:
        """How it is called."""
        return (self.function.__doc__ or "").partition("\n")[0]

    def check(self, args: list[bytes]) -> None:
        """Refuse what can't be called."""
        if not self.fits(len(args)):
            raise wrong_arity(self.name)
        if self.subcommands is not None:
            check_subcommand(self.name, self.subcommands, args)

    def fits(self, count: int) -> bool:
        """Whether this many arguments are right."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity

    def key_indexes(self, count: int) -> range:
        """Where the keys stand among this many arguments."""
        first, last, step = self.keys
        return range(first, (last if last >= 0 else count + last) + 1, step) if first else range(0)


def choose(
    name: str,
    table: Mapping[bytes, Subcommand[Looked]],
    looked: Looked,
    session: Session,
    args: list[bytes],
) -> bytes | Blocked:
    """Call the subcommand that these arguments name; they were checked."""
    word = args[1].upper()
    if word == b"HELP":
        return help_of(name, table)
    return table[word][1](looked, session, args)


def check_subcommand(
    name: str, table: Mapping[bytes, Subcommand[Looked]], args: list[bytes]
) -> None:
    """Refuse one that is not there, or with too few or too many arguments."""
    word = args[1].upper()
    arity = 2 if word == b"HELP" else 0
    if word in table:
        arity = table[word][0]
    if not arity:
        text = args[1][:TEXT_MAX].decode(errors="surrogateescape")
        raise CommandError(f"ERR unknown subcommand '{text}'. Try {name} HELP.")
    if len(args) != arity if arity > 0 else len(args) < -arity:
        raise wrong_arity(f"{name}|{args[1].decode()}")


def help_of(name: str, table: Mapping[bytes, Subcommand[Looked]]) -> bytes:
    """What the subcommands are."""
    lines = [f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for _, function in table.values():
        usage, _, meaning = (function.__doc__ or "").partition("\n")[0].partition(": ")
        lines += [usage, f"    {meaning}"]
    lines += ["HELP", "    Prints this help."]
    return array([simple(line) for line in lines])
