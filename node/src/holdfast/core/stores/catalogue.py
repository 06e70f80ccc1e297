"""All data commands in one table, and how one is found in it.

A command that is not there, or with too few or too many arguments, is refused here, so no command's
function ever sees less than its arity says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.stores import (
    blocking,
    counters,
    hashes,
    keys,
    keyspace,
    lists,
    locks,
    positions,
    sets,
    strings,
    versioned,
)
from holdfast.core.stores.command import Command, wrong_arity
from holdfast.core.stores.describing import Catalogue, catalogue_of
from holdfast.errors import CommandError

TEXT_MAX: Final = 128
"""As much of a command's name, or of its arguments, comes back in an error."""


ALL: Final[Catalogue[Command]] = catalogue_of(
    {
        "string": strings.COMMANDS + counters.COMMANDS + versioned.COMMANDS,
        "generic": keys.COMMANDS + keyspace.COMMANDS,
        "set": sets.COMMANDS,
        "hash": hashes.COMMANDS,
        "list": lists.COMMANDS + positions.COMMANDS + blocking.COMMANDS,
        "lock": locks.COMMANDS,
    }
)
CATALOGUE: Final[Mapping[bytes, Command]] = ALL.by_name
"""By name, in capitals and in small letters."""


def look_up(args: list[bytes]) -> Command:
    """The command that these arguments, its name first, are for."""
    found = CATALOGUE.get(args[0]) or CATALOGUE.get(args[0].upper())
    if found is None:
        raise unknown(args)
    if not found.fits(len(args)):
        raise wrong_arity(found.name)
    return found


def unknown(args: list[bytes]) -> CommandError:
    """Redis' text: the beginning of what was asked, and no more."""
    listed = b""
    for argument in args[1:]:
        if len(listed) >= TEXT_MAX:
            break
        listed += b"'%b' " % _text(argument, TEXT_MAX - len(listed))
    line = b"ERR unknown command '%b', with args beginning with: %b" % (
        _text(args[0], TEXT_MAX),
        listed,
    )
    return CommandError(line.decode(errors="surrogateescape"))


def _text(argument: bytes, length_max: int) -> bytes:
    """Where a zero ends it, as Redis writes it."""
    return argument[:length_max].partition(b"\0")[0]
