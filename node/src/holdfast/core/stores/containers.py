"""Values with many items: sets, hashes and lists, as they live in memory.

Rules
-----
* A container changes by *operations*, each a number and byte strings, which give the same result
  wherever they are applied to the same items. The owner chooses what is random or depends on the
  time before it makes an operation of it.
* An operation is checked before anything changes: what can't be done with these items is a
  `MessageError`, and the container is as it was.
* Sets are dictionaries without values: their order is that of insertion, on every holder alike.
* A container without items does not exist: whoever takes the last item removes the key.
* `size` follows from the items alone, so that every holder reckons the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import pairwise
from random import Random
from typing import ClassVar, Final

from holdfast.core.stores.packing import pack, unpack
from holdfast.core.stores.record import ABSENT, NEVER, Kind, body_of, build, expiry_of, version_of
from holdfast.errors import MessageError

CONTAINER_BYTES_MAX: Final = 64 << 20
"""What a container may hold, as any value (`design/4`): it is sent and written as one record."""

NUMBER_BYTES: Final = 8


class Change(IntEnum):
    """The operations that change containers."""

    EXPIRE = 0
    """Any: one argument, the expiry in eight bytes."""
    ADD = 1
    """A set: members."""
    REMOVE = 2
    """A set: members; a hash: fields."""
    SET = 3
    """A hash: fields and values, alternating."""
    PUSH_LEFT = 4
    """A list: elements, the last of which will be the first."""
    PUSH_RIGHT = 5
    """A list: elements."""
    TRIM = 6
    """A list: how many go at the left and at the right, eight bytes each."""
    REPLACE = 7
    """A list: index in eight bytes, element."""
    INSERT = 8
    """A list: index in eight bytes that the element will have, element."""
    DELETE = 9
    """A list: indexes in eight bytes each, in ascending order."""


def number(value: int) -> bytes:
    """A number as an operation's argument."""
    return value.to_bytes(NUMBER_BYTES, "big")


def numbers(change: Change, arguments: Sequence[bytes], count: int) -> list[int]:
    """The first `count` arguments of an operation, all of them numbers."""
    if len(arguments) < count or any(len(text) != NUMBER_BYTES for text in arguments[:count]):
        raise MessageError(f"{change.name} needs {count} numbers of {NUMBER_BYTES} bytes")
    return [int.from_bytes(text, "big") for text in arguments[:count]]


class Container(ABC):
    """What is common to all: a version, an expiry, items."""

    __slots__ = ("expiry", "size", "version")
    kind: ClassVar[Kind]
    OVERHEAD: ClassVar[int]
    """Bytes of an empty one: the object, and the dictionary or list in it."""
    ITEM_OVERHEAD: ClassVar[int]
    """Bytes that an item takes beside its own: an object, and its share of what holds it."""

    def __init__(self, version: bytes = ABSENT, expiry: int = NEVER) -> None:
        self.version = version
        self.expiry = expiry
        self.size = self.OVERHEAD
        """Bytes, roughly: what is in it and what holds that."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def items(self) -> Sequence[bytes]:
        """Everything in it, so that `fill` makes an equal one of it."""

    @abstractmethod
    def fill(self, items: Sequence[bytes]) -> None:
        """Take what `items` gave."""

    @abstractmethod
    def alter(self, change: Change, arguments: Sequence[bytes]) -> None:
        """Apply an operation of this kind of container."""

    def apply(self, change: Change, arguments: Sequence[bytes]) -> None:
        """Apply any operation."""
        if change is Change.EXPIRE:
            (self.expiry,) = numbers(change, arguments, 1)
        else:
            self.alter(change, arguments)

    def record(self) -> bytes:
        """The whole value as a record."""
        return build(self.version, self.kind, self.expiry, pack(self.items()))

    def cost(self, items: Iterable[bytes]) -> int:
        """What these items would add to the size."""
        return sum(len(item) + self.ITEM_OVERHEAD for item in items)

    def _unknown(self, change: Change) -> MessageError:
        return MessageError(f"{change.name} is no operation of a {self.kind.name.lower()}")


class SetValue(Container):
    """A set of byte strings."""

    __slots__ = ("_urn", "members")
    kind = Kind.SET
    OVERHEAD = 320
    ITEM_OVERHEAD = 96

    def __init__(self, version: bytes = ABSENT, expiry: int = NEVER) -> None:
        super().__init__(version, expiry)
        self.members: dict[bytes, None] = {}
        self._urn: list[bytes] | None = None
        """All members in some order, once somebody has drawn from them."""

    def __len__(self) -> int:
        return len(self.members)

    def items(self) -> Sequence[bytes]:
        """The members."""
        return tuple(self.members)

    def fill(self, items: Sequence[bytes]) -> None:
        """Take members."""
        members = dict.fromkeys(items)
        if len(members) != len(items):
            raise MessageError(f"a set of {len(items)} has {len(members)} members")
        self.members = members
        self.size = self.OVERHEAD + self.cost(items)
        self._urn = None

    def alter(self, change: Change, arguments: Sequence[bytes]) -> None:
        """ADD and REMOVE."""
        if change is Change.ADD:
            self._add(arguments)
        elif change is Change.REMOVE:
            self._remove(arguments)
        else:
            raise self._unknown(change)

    def draw(self, rng: Random, count: int) -> list[bytes]:
        """Members by chance, each at most once, which the caller then removes.

        The urn makes a draw as quick from a large set as from a small one. Whatever is removed
        without having been drawn breaks the urn (`_remove`).
        """
        urn = self.urn
        drawn = []
        for _ in range(min(count, len(urn))):
            index = rng.randrange(len(urn))
            urn[index], urn[-1] = urn[-1], urn[index]
            drawn.append(urn.pop())
        return drawn

    @property
    def urn(self) -> list[bytes]:
        """All members in some order, to choose from by index."""
        if self._urn is None:
            self._urn = list(self.members)
        return self._urn

    def _add(self, members: Sequence[bytes]) -> None:
        known = self.members
        for member in members:
            if member not in known:
                known[member] = None
                self.size += len(member) + self.ITEM_OVERHEAD
                if self._urn is not None:
                    self._urn.append(member)

    def _remove(self, members: Sequence[bytes]) -> None:
        for member in members:
            if self.members.pop(member, b"") is None:
                self.size -= len(member) + self.ITEM_OVERHEAD
        if self._urn is not None and len(self._urn) != len(self.members):
            self._urn = None


class HashValue(Container):
    """Fields with values."""

    __slots__ = ("fields",)
    kind = Kind.HASH
    OVERHEAD = 320
    ITEM_OVERHEAD = 60
    """A field is two items."""

    def __init__(self, version: bytes = ABSENT, expiry: int = NEVER) -> None:
        super().__init__(version, expiry)
        self.fields: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self.fields)

    def items(self) -> Sequence[bytes]:
        """Fields and values, alternating."""
        return tuple(part for pair in self.fields.items() for part in pair)

    def fill(self, items: Sequence[bytes]) -> None:
        """Take fields and values."""
        fields = dict(zip(items[::2], items[1::2], strict=False))
        if 2 * len(fields) != len(items):
            raise MessageError(f"{len(items)} items of a hash have {len(fields)} fields")
        self.fields = fields
        self.size = self.OVERHEAD + self.cost(items)

    def alter(self, change: Change, arguments: Sequence[bytes]) -> None:
        """SET and REMOVE."""
        if change is Change.SET:
            self._set(arguments)
        elif change is Change.REMOVE:
            for name in arguments:
                value = self.fields.pop(name, None)
                if value is not None:
                    self.size -= len(name) + len(value) + 2 * self.ITEM_OVERHEAD
        else:
            raise self._unknown(change)

    def _set(self, arguments: Sequence[bytes]) -> None:
        if len(arguments) % 2:
            raise MessageError(f"SET has {len(arguments)} fields and values")
        for name, value in zip(arguments[::2], arguments[1::2], strict=True):
            old = self.fields.get(name)
            self.fields[name] = value
            if old is None:
                self.size += len(name) + len(value) + 2 * self.ITEM_OVERHEAD
            else:
                self.size += len(value) - len(old)


class ListValue(Container):
    """A list, quick at both ends."""

    __slots__ = ("elements",)
    kind = Kind.LIST
    OVERHEAD = 880
    ITEM_OVERHEAD = 48

    def __init__(self, version: bytes = ABSENT, expiry: int = NEVER) -> None:
        super().__init__(version, expiry)
        self.elements: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self.elements)

    def items(self) -> Sequence[bytes]:
        """The elements."""
        return tuple(self.elements)

    def fill(self, items: Sequence[bytes]) -> None:
        """Take elements."""
        self.elements = deque(items)
        self.size = self.OVERHEAD + self.cost(items)

    def alter(self, change: Change, arguments: Sequence[bytes]) -> None:
        """Pushes, TRIM, REPLACE, INSERT and DELETE."""
        if change is Change.PUSH_LEFT:
            self.elements.extendleft(arguments)
            self.size += self.cost(arguments)
        elif change is Change.PUSH_RIGHT:
            self.elements.extend(arguments)
            self.size += self.cost(arguments)
        elif change is Change.TRIM:
            self._trim(*numbers(change, arguments, 2))
        elif change is Change.DELETE:
            self._delete(numbers(change, arguments, len(arguments)))
        elif change is Change.REPLACE or change is Change.INSERT:
            (index,) = numbers(change, arguments, 1)
            if len(arguments) != 2:
                raise MessageError(f"{change.name} needs an index and an element")
            self._put(index, arguments[1], replaces=change is Change.REPLACE)
        else:
            raise self._unknown(change)

    def _trim(self, left: int, right: int) -> None:
        elements = self.elements
        if left + right > len(elements):
            raise MessageError(f"{left} and {right} elements of {len(elements)} can't go")
        gone = [elements.popleft() for _ in range(left)]
        gone += [elements.pop() for _ in range(right)]
        self.size -= self.cost(gone)

    def _delete(self, indexes: Sequence[int]) -> None:
        elements = self.elements
        if any(one >= other for one, other in pairwise(indexes)):
            raise MessageError("the indexes to delete do not ascend")
        if indexes and indexes[-1] >= len(elements):
            raise MessageError(f"no element {indexes[-1]} among {len(elements)} can be deleted")
        doomed = frozenset(indexes)
        self.size -= self.cost(one for index, one in enumerate(elements) if index in doomed)
        self.elements = deque(one for index, one in enumerate(elements) if index not in doomed)

    def _put(self, index: int, element: bytes, *, replaces: bool) -> None:
        elements = self.elements
        if index > len(elements) - replaces:
            raise MessageError(f"there is no place {index} among {len(elements)} elements")
        if replaces:
            self.size -= self.cost((elements[index],))
            elements[index] = element
        else:
            elements.insert(index, element)
        self.size += self.cost((element,))


CONTAINERS: Final[dict[Kind, type[Container]]] = {
    Kind.SET: SetValue,
    Kind.HASH: HashValue,
    Kind.LIST: ListValue,
}


def restore(kind: Kind, record: bytes) -> Container:
    """The container of a whole record."""
    maker = CONTAINERS.get(kind)
    if maker is None:
        raise MessageError(f"{kind.name} is no kind of container")
    container = maker(version_of(record), expiry_of(record))
    container.fill(unpack(body_of(record)))
    if not container:
        raise MessageError(f"a {kind.name.lower()} without items")
    return container
