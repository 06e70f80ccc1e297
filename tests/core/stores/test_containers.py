"""Operations on containers: what they do, what they refuse, and what they do to the size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.containers import (
    CONTAINERS,
    Change,
    Container,
    HashValue,
    ListValue,
    SetValue,
    number,
    restore,
)
from holdfast.core.stores.packing import pack
from holdfast.core.stores.record import ABSENT, NEVER, Kind, build
from holdfast.errors import MessageError

VERSION = bytes(9) + b"\x05"
ITEMS = st.sampled_from([b"", b"a", b"bc", b"d" * 40])
NUMBERS = st.integers(0, 6).map(number)
ARGUMENTS = st.lists(ITEMS | NUMBERS | st.binary(max_size=9), max_size=4)
OPERATIONS = st.lists(st.tuples(st.sampled_from(Change), ARGUMENTS), max_size=12)


def example(kind: Kind) -> Container:
    """Three items; of a hash, two fields."""
    items = [b"a", b"bc", b"d"] if kind is not Kind.HASH else [b"a", b"1", b"bc", b""]
    return restore(kind, build(VERSION, kind, NEVER, pack(items)))


@given(st.sampled_from([Kind.SET, Kind.HASH, Kind.LIST]), OPERATIONS)
def test_any_operation_is_applied_exactly_or_refused(
    kind: Kind, operations: list[tuple[Change, list[bytes]]]
) -> None:
    """Whatever comes: no other error than MessageError, nothing half done, an exact size."""
    container = CONTAINERS[kind]()
    for change, arguments in operations:
        before, size, expiry = container.items(), container.size, container.expiry
        try:
            container.apply(change, arguments)
        except MessageError:
            assert (container.items(), container.size, container.expiry) == (before, size, expiry)
        fresh = CONTAINERS[kind]()
        fresh.fill(container.items())
        assert fresh.size == container.size
        assert fresh.items() == container.items()


@given(st.sampled_from([Kind.SET, Kind.HASH, Kind.LIST]), st.integers(0, 1 << 62))
def test_record_of_a_container_makes_an_equal_one(kind: Kind, expiry: int) -> None:
    container = example(kind)
    container.apply(Change.EXPIRE, [number(expiry)])
    again = restore(kind, container.record())
    assert again.items() == container.items()
    assert (again.version, again.expiry, again.size) == (VERSION, expiry, container.size)
    assert again.record() == container.record()


LISTS: list[tuple[Change, list[bytes], list[bytes]]] = [
    (Change.PUSH_LEFT, [b"x", b"y"], [b"y", b"x", b"a", b"bc", b"d"]),
    (Change.PUSH_RIGHT, [b"x", b"y"], [b"a", b"bc", b"d", b"x", b"y"]),
    (Change.TRIM, [number(1), number(1)], [b"bc"]),
    (Change.TRIM, [number(0), number(3)], []),
    (Change.REPLACE, [number(1), b"x"], [b"a", b"x", b"d"]),
    (Change.INSERT, [number(1), b"x"], [b"a", b"x", b"bc", b"d"]),
    (Change.INSERT, [number(3), b"x"], [b"a", b"bc", b"d", b"x"]),
    (Change.DELETE, [number(0), number(2)], [b"bc"]),
    (Change.DELETE, [], [b"a", b"bc", b"d"]),
]


@pytest.mark.parametrize(("change", "arguments", "items"), LISTS)
def test_operations_of_lists(change: Change, arguments: list[bytes], items: list[bytes]) -> None:
    held = example(Kind.LIST)
    held.apply(change, arguments)
    assert list(held.items()) == items


REFUSED: list[tuple[Kind, Change, list[bytes], str]] = [
    (Kind.SET, Change.SET, [b"a", b"b"], "SET is no operation of a set"),
    (Kind.HASH, Change.ADD, [b"a"], "ADD is no operation of a hash"),
    (Kind.LIST, Change.REMOVE, [b"a"], "REMOVE is no operation of a list"),
    (Kind.SET, Change.EXPIRE, [], "EXPIRE needs 1 numbers of 8 bytes"),
    (Kind.SET, Change.EXPIRE, [b"123"], "EXPIRE needs 1 numbers of 8 bytes"),
    (Kind.HASH, Change.SET, [b"a", b"b", b"c"], "SET has 3 fields and values"),
    (Kind.LIST, Change.TRIM, [number(1)], "TRIM needs 2 numbers"),
    (Kind.LIST, Change.TRIM, [number(2), number(2)], "2 and 2 elements of 3 can't go"),
    (Kind.LIST, Change.REPLACE, [number(3), b"x"], "no place 3 among 3"),
    (Kind.LIST, Change.REPLACE, [number(0)], "REPLACE needs an index and an element"),
    (Kind.LIST, Change.INSERT, [number(4), b"x"], "no place 4 among 3"),
    (Kind.LIST, Change.INSERT, [number(1), b"x", b"y"], "INSERT needs an index and an element"),
    (Kind.LIST, Change.DELETE, [number(3)], "no element 3 among 3"),
    (Kind.LIST, Change.DELETE, [number(1), number(1)], "do not ascend"),
    (Kind.LIST, Change.DELETE, [b"x"], "DELETE needs 1 numbers"),
]


@pytest.mark.parametrize(("kind", "change", "arguments", "text"), REFUSED)
def test_impossible_operations_are_refused(
    kind: Kind, change: Change, arguments: list[bytes], text: str
) -> None:
    held = example(kind)
    before = held.record()
    with pytest.raises(MessageError, match=text):
        held.apply(change, arguments)
    assert held.record() == before


BODIES: list[tuple[Kind, list[bytes], str]] = [
    (Kind.SET, [b"a", b"a"], "a set of 2 has 1 members"),
    (Kind.HASH, [b"a"], "1 items of a hash have 0 fields"),
    (Kind.HASH, [b"a", b"1", b"a", b"2"], "4 items of a hash have 1 fields"),
    (Kind.LIST, [], "a list without items"),
    (Kind.SET, [], "a set without items"),
    (Kind.GONE, [b"a"], "GONE is no kind of container"),
]


@pytest.mark.parametrize(("kind", "items", "text"), BODIES)
def test_impossible_records_are_refused(kind: Kind, items: list[bytes], text: str) -> None:
    with pytest.raises(MessageError, match=text):
        restore(kind, build(VERSION, kind, NEVER, pack(items)))


def test_new_containers_are_of_no_version() -> None:
    for container in (SetValue(), HashValue(), ListValue()):
        assert container.version == ABSENT
        assert container.size == container.OVERHEAD
        assert not len(container)
