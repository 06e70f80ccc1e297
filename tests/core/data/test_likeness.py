"""Sums over copies: equal for what is alike, in whatever order; another for every difference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.data.likeness import (
    Likeness,
    number_of_content,
    number_of_record,
    weigh,
    weight_of,
)
from holdfast.core.data.merkle import PRIME, Tree, hash_of
from holdfast.core.stores.containers import Change, HashValue, ListValue, SetValue
from holdfast.core.stores.packing import pack
from holdfast.core.stores.record import Kind, build, version_at

ROWS = st.dictionaries(st.binary(max_size=4), st.binary(max_size=3), max_size=8)
LATER = version_at(2, 7)
SOONER = version_at(1, 3)


@given(ROWS, ROWS)
def test_the_sum_is_equal_exactly_for_equal_content(
    one: dict[bytes, bytes], other: dict[bytes, bytes]
) -> None:
    mine = [(key, build(SOONER, Kind.STRING, 0, value)) for key, value in one.items()]
    theirs = [(key, build(LATER, Kind.STRING, 0, value)) for key, value in reversed(other.items())]
    sums = [weigh(rows, Likeness.CONTENT) for rows in (mine, theirs)]
    assert (sums[0] == sums[1]) is (one == other)


@given(ROWS)
def test_versions_sum_up_to_the_root_of_the_tree(rows: dict[bytes, bytes]) -> None:
    records = [
        (key, build(version_at(1, number + 1), Kind.STRING, 0, rows[key]))
        for number, key in enumerate(rows)
    ]
    tree = Tree()
    for key, record in records:
        tree.update(hash_of(key), 0, number_of_record(record, Likeness.VERSIONS))
    assert weigh(records, Likeness.VERSIONS) == tree.root
    half = len(records) // 2
    first = weigh(records[:half], Likeness.VERSIONS)
    assert weigh(records[half:], Likeness.VERSIONS, first) == tree.root


def test_a_key_adds_its_weight() -> None:
    record = build(SOONER, Kind.STRING, 0, b"v")
    number = number_of_record(record, Likeness.CONTENT)
    assert weigh([(b"k", record)], Likeness.CONTENT) == weight_of(b"k", number)
    assert 0 < weight_of(b"k", number) < PRIME


def test_the_order_in_which_a_container_was_filled_does_not_count_but_that_of_a_list() -> None:
    def filled(made: SetValue | HashValue | ListValue, change: Change, *items: bytes) -> bytes:
        made.apply(change, items)
        made.version = SOONER
        return made.record()

    def alike(*records: bytes) -> bool:
        return len({number_of_record(each, Likeness.CONTENT) for each in records}) == 1

    add, put, push = Change.ADD, Change.SET, Change.PUSH_RIGHT
    assert alike(filled(SetValue(), add, b"a", b"b"), filled(SetValue(), add, b"b", b"a"))
    one = filled(HashValue(), put, b"a", b"1", b"b", b"2")
    assert alike(one, filled(HashValue(), put, b"b", b"2", b"a", b"1"))
    assert not alike(one, filled(HashValue(), put, b"b", b"1", b"a", b"2"))
    assert not alike(filled(ListValue(), push, b"a", b"b"), filled(ListValue(), push, b"b", b"a"))


def test_kind_and_expiry_are_content() -> None:
    body = pack([b"a"])
    numbers = {
        number_of_content(Kind.STRING, 0, body),
        number_of_content(Kind.STRING, 5, body),
        number_of_content(Kind.SET, 0, body),
        number_of_content(Kind.LIST, 0, body),
    }
    assert len(numbers) == 4
