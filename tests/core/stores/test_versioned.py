"""Strings with their versions: conditions hold or nothing changes, and no version comes twice."""

from __future__ import annotations

import pytest

from holdfast.core.stores.command import LOCKED, NOT_AN_INTEGER, SYNTAX, WRONG_TYPE
from tests.core.stores.partition import Partition


def put(partition: Partition, *words: bytes | str) -> bytes:
    """The version that a value was given."""
    reply = partition.run("HOLDFAST.PUT", *words)
    assert isinstance(reply, bytes)
    return reply


def version(partition: Partition, key: str) -> bytes:
    """The version that a key has."""
    reply = partition.run("HOLDFAST.GET", key)
    assert isinstance(reply, list)
    assert isinstance(reply[0], bytes)
    return reply[0]


def test_a_value_comes_with_its_version_and_its_life() -> None:
    partition = Partition()
    assert partition.run("HOLDFAST.GET", "k") is None
    written = partition.run("HOLDFAST.PUT", "k", "v")
    assert partition.run("HOLDFAST.GET", "k") == [written, -1, b"v"]
    written = partition.run("HOLDFAST.PUT", "k", "w", "PX", "1000")
    partition.now += 400
    assert partition.run("HOLDFAST.GET", "k") == [written, 600, b"w"]
    partition.now += 600
    assert partition.run("HOLDFAST.GET", "k") is None


def test_no_version_comes_back_when_a_key_was_gone() -> None:
    partition = Partition()
    seen = []
    for _ in range(3):
        seen.append(partition.run("HOLDFAST.PUT", "k", "v"))
        assert partition.run("HOLDFAST.REMOVE", "k") == 1
    assert len(set(map(repr, seen))) == 3


def test_any_write_of_the_key_makes_a_new_version() -> None:
    partition = Partition()
    old = put(partition, "k", "1")
    partition.run("INCR", "k")
    assert version(partition, "k") != old
    assert partition.run("HOLDFAST.PUT", "k", "3", "MATCH", old) is None
    assert partition.run("GET", "k") == b"2"


def test_a_put_asks_for_its_condition() -> None:
    partition = Partition()
    assert partition.run("HOLDFAST.PUT", "k", "1", "present") is None
    assert partition.run("HOLDFAST.PUT", "k", "1", "MATCH", "00" * 10) is None
    first = put(partition, "k", "1")
    assert partition.run("HOLDFAST.PUT", "k", "2", "absent") is None
    second = put(partition, "k", "2", "match", first.upper())
    assert second == version(partition, "k")
    assert partition.run("HOLDFAST.PUT", "k", "3", "MATCH", first) is None
    assert partition.run("HOLDFAST.PUT", "k", "4", "PRESENT", "PX", "10") is not None
    partition.now += 10
    assert partition.run("HOLDFAST.PUT", "k", "5", "ABSENT") is not None


def test_a_removal_asks_for_its_condition() -> None:
    partition = Partition()
    assert partition.run("HOLDFAST.REMOVE", "k") == 0
    first = put(partition, "k", "1")
    second = put(partition, "k", "2")
    assert partition.run("HOLDFAST.REMOVE", "k", "MATCH", first) is None
    assert partition.run("GET", "k") == b"2"
    assert partition.run("HOLDFAST.REMOVE", "k", "MATCH", second) == 1
    assert partition.run("HOLDFAST.REMOVE", "k", "MATCH", second) is None


def test_what_is_no_string_is_not_told_and_may_be_replaced_or_removed() -> None:
    partition = Partition()
    partition.run("RPUSH", "k", "item")
    assert partition.run("HOLDFAST.GET", "k") == WRONG_TYPE
    assert partition.run("HOLDFAST.PUT", "k", "v", "ABSENT") is None
    assert partition.run("HOLDFAST.PUT", "k", "v", "PRESENT") is not None
    assert partition.run("GET", "k") == b"v"
    partition.run("SADD", "s", "item")
    assert partition.run("HOLDFAST.REMOVE", "s") == 1


def test_a_lock_is_respected() -> None:
    partition = Partition()
    partition.run("HOLDFAST.LOCK", "k", "1000")
    partition.session = b"two"
    assert partition.run("HOLDFAST.PUT", "k", "v") == LOCKED
    assert partition.run("HOLDFAST.REMOVE", "k") == LOCKED


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("HOLDFAST.PUT k v NX", SYNTAX),
        ("HOLDFAST.PUT k v ABSENT PRESENT", SYNTAX),
        ("HOLDFAST.PUT k v PX 1 PX 2", SYNTAX),
        ("HOLDFAST.PUT k v PX", NOT_AN_INTEGER),
        ("HOLDFAST.PUT k v PX 0", "ERR invalid expire time in 'set' command"),
        ("HOLDFAST.REMOVE k ABSENT", SYNTAX),
        ("HOLDFAST.REMOVE k PX 1", SYNTAX),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, text: str) -> None:
    partition = Partition()
    assert partition.run(*words.split()) == text
    assert partition.run("GET", "k") is None
