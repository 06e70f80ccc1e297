"""COMMAND: what the commands are, told from their table.

Clients that know a cluster ask for it, to learn where the keys of a command stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from holdfast.core.stores.command import SYNTAX, Call, Trait, wrong_arity
from holdfast.core.stores.glob import glob
from holdfast.core.stores.replies import array, bulk, bulks, integer, simple
from holdfast.errors import CommandError

FLAGS: Final = (
    (Trait.WRITE, "write"),
    (Trait.READ, "readonly"),
    (Trait.GROWS, "denyoom"),
    (Trait.BLOCKS, "blocking"),
    (Trait.FAST, "fast"),
)
CATEGORIES: Final = (
    (Trait.READ, "@read"),
    (Trait.WRITE, "@write"),
    (Trait.BLOCKS, "@blocking"),
    (Trait.FAST, "@fast"),
)
HELP: Final = (
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands.",
    "DOCS [<command-name> [<command-name> ...]]",
    "    Return documentation details about multiple commands.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "INFO [<command-name> [<command-name> ...]]",
    "    Return details about multiple commands.",
    "LIST [FILTERBY PATTERN <pattern>]",
    "    Return a list of all commands.",
    "HELP",
    "    Prints this help.",
)


class Described(Protocol):
    """What is told of a command, whoever carries it out."""

    @property
    def name(self) -> str:
        """In capitals."""

    @property
    def arity(self) -> int:
        """Arguments with the name; negative: at least so many."""

    @property
    def traits(self) -> Trait:
        """What is true of it."""

    @property
    def keys(self) -> tuple[int, int, int]:
        """First key, last key, step."""

    @property
    def about(self) -> str:
        """How it is called."""

    def fits(self, count: int) -> bool:
        """Whether this many arguments are right."""

    def key_indexes(self, count: int) -> range:
        """Where the keys stand among this many arguments."""


AnyCommand = TypeVar("AnyCommand", bound=Described, covariant=True)


@dataclass(frozen=True, slots=True)
class Catalogue(Generic[AnyCommand]):
    """All commands, by the groups that their documentation has, and by name."""

    groups: Mapping[str, Sequence[AnyCommand]]
    by_name: Mapping[bytes, AnyCommand]
    """In capitals and in small letters: how nearly everybody writes them."""

    def find(self, name: bytes) -> AnyCommand | None:
        """A command by its name in any case."""
        return self.by_name.get(name) or self.by_name.get(name.upper())

    def all(self) -> list[AnyCommand]:
        """Each command once."""
        return [command for commands in self.groups.values() for command in commands]


def catalogue_of(groups: Mapping[str, Sequence[AnyCommand]]) -> Catalogue[AnyCommand]:
    """The catalogue of these groups."""
    commands = [command for commands in groups.values() for command in commands]
    upper = {command.name.encode(): command for command in commands}
    return Catalogue(groups, upper | {name.lower(): each for name, each in upper.items()})


def describe(catalogue: Catalogue[Described], call: Call, args: list[bytes]) -> bytes:
    """COMMAND [COUNT | DOCS | GETKEYS | HELP | INFO | LIST]."""
    if len(args) == 1:
        return array([_details(call, command) for command in catalogue.all()])
    found = SUBCOMMANDS.get(args[1].upper())
    if found is None:
        word = args[1][:128].decode(errors="surrogateescape")
        raise CommandError(f"ERR unknown subcommand '{word}'. Try COMMAND HELP.")
    arity, function = found
    if len(args) != arity if arity > 0 else len(args) < -arity:
        raise wrong_arity(f"command|{args[1].decode()}")
    return function(catalogue, call, args)


def _count(catalogue: Catalogue[Described], call: Call, args: list[bytes]) -> bytes:  # noqa: ARG001  one form
    return integer(len(catalogue.all()))


def _info(catalogue: Catalogue[Described], call: Call, args: list[bytes]) -> bytes:
    if len(args) == 2:
        return describe(catalogue, call, args[:1])
    found = [catalogue.find(name) for name in args[2:]]
    return array([call.dialect.null if each is None else _details(call, each) for each in found])


def _docs(catalogue: Catalogue[Described], call: Call, args: list[bytes]) -> bytes:
    wanted = [catalogue.find(name) for name in args[2:]]
    items = []
    for group, commands in catalogue.groups.items():
        for command in commands:
            if not wanted or command in wanted:
                items += [bulk(command.name.lower().encode()), _documentation(call, group, command)]
    return call.dialect.pairs(items)


def _getkeys(catalogue: Catalogue[Described], call: Call, args: list[bytes]) -> bytes:  # noqa: ARG001  one form
    command, count = catalogue.find(args[2]), len(args) - 2
    if command is None:
        raise CommandError("ERR Invalid command specified")
    if not command.keys[0]:
        raise CommandError("ERR The command has no key arguments")
    if not command.fits(count):
        raise CommandError("ERR Invalid number of arguments specified for command")
    return bulks(args[2 + index] for index in command.key_indexes(count))


def _list(catalogue: Catalogue[Described], call: Call, args: list[bytes]) -> bytes:  # noqa: ARG001  one form
    matches = glob(b"*")
    if len(args) > 2:
        if len(args) != 5 or [args[2].upper(), args[3].upper()] != [b"FILTERBY", b"PATTERN"]:
            raise CommandError(SYNTAX)
        matches = glob(args[4].lower())
    names = [command.name.lower().encode() for command in catalogue.all()]
    return bulks(filter(matches, names))


def _help(catalogue: Catalogue[Described], call: Call, args: list[bytes]) -> bytes:  # noqa: ARG001  one form
    return array([simple(line) for line in HELP])


def _details(call: Call, command: Described) -> bytes:
    """Name, arity, flags, keys, categories; tips, key specifications and subcommands: none."""
    traits = command.traits
    flags = [simple(word) for trait, word in FLAGS if trait in traits]
    categories = [simple(word) for trait, word in CATEGORIES if trait in traits]
    if Trait.FAST not in traits:
        categories.append(simple("@slow"))
    none = call.dialect.members(())
    return array(
        [
            bulk(command.name.lower().encode()),
            integer(command.arity),
            call.dialect.members(flags),
            *map(integer, command.keys),
            call.dialect.members(categories),
            none,
            none,
            none,
        ]
    )


def _documentation(call: Call, group: str, command: Described) -> bytes:
    texts = ("summary", command.about, "group", group)
    return call.dialect.pairs([bulk(text.encode()) for text in texts])


Subcommand = Callable[[Catalogue[Described], Call, list[bytes]], bytes]
SUBCOMMANDS: Final[Mapping[bytes, tuple[int, Subcommand]]] = {
    b"COUNT": (2, _count),
    b"DOCS": (-2, _docs),
    b"GETKEYS": (-4, _getkeys),
    b"HELP": (2, _help),
    b"INFO": (-2, _info),
    b"LIST": (-2, _list),
}
