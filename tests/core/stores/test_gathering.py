"""Commands taken apart by partition, and replies put together."""

from __future__ import annotations

from holdfast.core.stores.catalogue import ALL
from holdfast.core.stores.gathering import places_of, split_array, split_bulks, taken_apart
from holdfast.ids import PartitionId

NULL = b"$-1\r\n"


def partition_of(key: bytes) -> PartitionId:
    """By the first letter."""
    return PartitionId(key[0] % 2)


def test_items_of_an_array_are_cut_where_they_end() -> None:
    items = [b"$2\r\n\r\n\r\n", NULL, b":5\r\n", b"$0\r\n\r\n"]
    assert split_array(b"*4\r\n" + b"".join(items)) == items
    assert split_array(b"*0\r\n") == []


def test_what_byte_strings_say() -> None:
    assert split_bulks(b"*2\r\n$3\r\na\r\n\r\n$0\r\n\r\n") == [b"a\r\n", b""]


def test_a_value_goes_where_its_key_goes_and_replies_come_back_in_order() -> None:
    args = [b"MSET", b"a", b"1", b"b", b"2", b"c", b"3"]
    command = ALL.find(b"MSET")
    assert command is not None
    places = places_of(command.keys_in(args), partition_of)
    assert places == {1: [0, 2], 0: [1]}
    parts, combine = taken_apart(command, args, places)
    assert parts == [(1, [b"MSET", b"a", b"1", b"c", b"3"]), (0, [b"MSET", b"b", b"2"])]
    assert combine([b"+OK\r\n"] * 2) == b"+OK\r\n"
    command = ALL.find(b"MGET")
    assert command is not None
    _, combine = taken_apart(command, [b"MGET", b"a", b"b", b"c"], places)
    told = combine([b"*2\r\n$1\r\n1\r\n$-1\r\n", b"*1\r\n$1\r\n2\r\n"])
    assert told == b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n"


def test_numbers_are_added() -> None:
    command = ALL.find(b"DEL")
    assert command is not None
    _, combine = taken_apart(
        command, [b"DEL", b"a", b"b"], {PartitionId(0): [1], PartitionId(1): [0]}
    )
    assert combine([b":1\r\n", b":1\r\n"]) == b":2\r\n"
