"""An owner's space and a backup's: commands go to the one, its mutations to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from holdfast.core.data.content import tree_of
from holdfast.core.stores import blocking, hashes, lists, locks, positions, sets
from holdfast.core.stores.command import Blocked, Call, Command
from holdfast.core.stores.containers import Container, restore
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.replies import RESP2, Resp2
from holdfast.core.stores.settings import NameSettings
from holdfast.core.stores.space import Space
from holdfast.errors import CommandError

COMMANDS: Final[dict[str, Command]] = {
    command.name: command
    for module in (sets, hashes, lists, positions, blocking, locks)
    for command in module.COMMANDS
}
NOW: Final = 1_700_000_000_000

Reply = int | bytes | str | list["Reply"] | None
Contents = dict[bytes, tuple[dict[bytes, bytes], dict[bytes, bytes], int]]


def plain(_name: bytes) -> NameSettings:
    """Nothing is configured."""
    return NameSettings()


@dataclass
class Replicas:
    """Both of them, one clock and one source of chance."""

    settings_of: Callable[[bytes], NameSettings] = plain
    now: int = NOW
    session: bytes = b"one"
    dialect: Resp2 = RESP2
    may_write: bool = True
    random: Random = field(default_factory=lambda: Random(1))

    def __post_init__(self) -> None:
        self.owner = Space(self.settings_of, 1)
        self.backup = Space(self.settings_of, 0)

    def call(self) -> Call:
        """The circumstances of now."""
        return Call(self.now, self.random, self.dialect, self.session, self.may_write)

    def ask(self, *words: bytes | str | int) -> bytes | Blocked:
        """What the command returns; errors as they are written to the client."""
        args = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        command = COMMANDS[args[0].decode().upper()]
        assert command.fits(len(args)), f"{command.name} takes {command.arity}"
        try:
            return command.function(self.owner, self.call(), args)
        except CommandError as error:
            return b"-%b\r\n" % str(error).encode()

    def raw(self, *words: bytes | str | int) -> bytes:
        """The reply of a command that must not wait."""
        reply = self.ask(*words)
        assert isinstance(reply, bytes), f"{words!r} waits"
        return reply

    def run(self, *words: bytes | str | int) -> Reply:
        """The same, decoded."""
        return decode(self.raw(*words))

    def waits(self, *words: bytes | str | int) -> Blocked:
        """What a command waits for."""
        reply = self.ask(*words)
        assert isinstance(reply, Blocked), f"{words!r} does not wait"
        return reply

    def value(self, key: bytes) -> Container:
        """A container at the owner."""
        found = self.owner.find(key)
        assert found is not None
        assert isinstance(found[1], Container)
        return found[1]

    def ship(self) -> None:
        """Every mutation reaches the backup, in order."""
        for fragment in self.owner:
            into = self.backup.named(fragment.name)
            for key, record in fragment.take():
                assert into.apply(key, record), f"{key!r} is broken by {record.hex()}"

    def check(self) -> None:
        """Both are equal, and what they reckoned step by step is what a count gives."""
        self.ship()
        assert contents(self.owner) == contents(self.backup)
        for fragment in (*self.owner, *self.backup):
            check_sizes(fragment)


def contents(space: Iterable[Fragment]) -> Contents:
    """What matters of a space: records, locks, counters."""
    return {each.name: parts(each) for each in space if each.counter}


def parts(fragment: Fragment) -> tuple[dict[bytes, bytes], dict[bytes, bytes], int]:
    """Whole records of keys, of locks, and how many mutations there were."""
    records = {key: fragment.record_of(key) for key in fragment.records}
    return records, {key: fragment.lock_record(key) for key in fragment.locks}, fragment.counter


def check_sizes(fragment: Fragment) -> None:
    """Sizes kept step by step are those of a fragment that got everything at once."""
    fresh = Fragment(fragment.name, fragment.settings, 0)
    for block in fragment.entries(1):
        for key, record in block:
            fresh.apply(key, record)
    assert fragment.used == fresh.used
    assert tree_of(fragment).leaves == tree_of(fresh).leaves, "kept since the first look"
    for value in fragment.records.values():
        if isinstance(value, Container):
            assert value.size == restore(value.kind, value.record()).size
            assert len(value), "a container without items"


def decode(reply: bytes) -> Reply:
    """A reply of RESP2; errors and statuses as text."""
    value, rest = _decode(reply)
    assert not rest, f"{reply!r} goes on after its end"
    return value


def _decode(reply: bytes) -> tuple[Reply, bytes]:
    head, _, rest = reply.partition(b"\r\n")
    kind, text = head[:1], head[1:]
    if kind in b"+-":
        return text.decode(), rest
    number = int(text)
    if kind == b":":
        return number, rest
    if number < 0:
        return None, rest
    if kind == b"$":
        assert rest[number : number + 2] == b"\r\n"
        return rest[:number], rest[number + 2 :]
    assert kind == b"*"
    items: list[Reply] = []
    for _ in range(number):
        item, rest = _decode(rest)
        items.append(item)
    return items, rest
