"""One fragment: what was changed arrives, what is missing shows, what is corrupt is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.containers import Change, HashValue, ListValue, SetValue, number
from holdfast.core.stores.fragment import (
    DEADLINES_SPARE,
    Fragment,
    Mutation,
    expiry_of_value,
    kind_of_value,
)
from holdfast.core.stores.packing import pack
from holdfast.core.stores.record import ABSENT, CHANGE, NEVER, Kind, build, kind_of, version_of
from holdfast.core.stores.settings import Eviction, NameSettings
from holdfast.errors import MessageError
from tests.core.stores.fragments import STEPS, Step, change, perform
from tests.core.stores.replicas import check_sizes, parts


def fragment(epoch: int = 1) -> Fragment:
    """An empty one."""
    return Fragment(b"default", NameSettings(), epoch)


def apply_all(into: Fragment, mutations: list[Mutation]) -> list[bytes]:
    """Keys that are broken by it."""
    return [key for key, record in mutations if not into.apply(key, record)]


# Files --------------------------------------------------------------------------------------------


@given(STEPS)
def test_what_files_have_kept_is_loaded_as_if_it_were_applied(steps: list[Step]) -> None:
    owner, one, other = fragment(), fragment(0), fragment(0)
    for step in steps:
        perform(owner, step)
    records = {key: owner.record_of(key) for key in owner.records}
    locks = [(key, owner.lock_record(key)) for key in owner.locks]
    one.load(dict(records), locks)
    assert apply_all(other, [*records.items(), *locks]) == []
    assert parts(one) == parts(other)
    assert (one.used, one.counter) == (other.used, other.counter)


def test_strings_are_loaded_together() -> None:
    strings = {
        b"k%d" % each: build((1 << 48 | each).to_bytes(10, "big"), Kind.STRING, NEVER, b"v")
        for each in (3, 9, 4)
    }
    one, other = fragment(0), fragment(0)
    one.load(strings)
    assert one.records is strings
    assert apply_all(other, [*strings.items()]) == []
    assert parts(one) == parts(other)
    assert (one.used, one.counter) == (other.used, 9)
    one.load(dict(strings))
    assert one.records is strings
    assert one.used == other.used
    one.load({})
    with pytest.raises(MessageError, match="no record begins"):
        fragment().load({b"k": b"short"})


# Owner and backup ---------------------------------------------------------------------------------


@given(STEPS)
def test_backup_equals_owner_after_any_steps(steps: list[Step]) -> None:
    owner, backup = fragment(), fragment(0)
    for step in steps:
        perform(owner, step)
        assert not apply_all(backup, owner.take())
        assert parts(backup) == parts(owner)
        assert (backup.used, backup.counter) == (owner.used, owner.counter)
    check_sizes(owner)
    check_sizes(backup)


@given(STEPS, st.data())
def test_lost_mutation_breaks_its_key_and_no_other(steps: list[Step], data: st.DataObject) -> None:
    owner, backup = fragment(), fragment(0)
    for step in steps:
        perform(owner, step)
    mutations = owner.take()
    if not mutations:
        return
    lost = data.draw(st.integers(0, len(mutations) - 1))
    victim, record = mutations.pop(lost)
    broken = apply_all(backup, mutations)
    if kind_of(record) is Kind.EMPTIED:
        return
    assert set(broken) <= {victim}
    for key in owner.records:
        if key != victim:
            assert backup.record_of(key) == owner.record_of(key)
    if victim in owner.records:
        backup.merge(victim, owner.record_of(victim))
        assert backup.record_of(victim) == owner.record_of(victim)
    check_sizes(backup)


def test_change_of_another_version_is_refused_until_the_whole_record_comes() -> None:
    """1. a set; 2. a member, lost; 3. another one; 4. the set whole; 5. one more."""
    owner, backup = fragment(), fragment(0)
    change(owner, b"s", SetValue, Change.ADD, b"a")
    apply_all(backup, owner.take())
    change(owner, b"s", SetValue, Change.ADD, b"lost")
    owner.take()
    change(owner, b"s", SetValue, Change.ADD, b"c")
    held = backup.record_of(b"s")
    assert apply_all(backup, owner.take()) == [b"s"]
    assert backup.record_of(b"s") == held
    assert backup.merge(b"s", owner.record_of(b"s"))
    change(owner, b"s", SetValue, Change.ADD, b"d")
    assert apply_all(backup, owner.take()) == []
    assert parts(backup) == parts(owner)


def test_lost_removal_is_healed_by_the_next_container_of_the_key() -> None:
    owner, backup = fragment(), fragment(0)
    change(owner, b"k", SetValue, Change.ADD, b"a")
    apply_all(backup, owner.take())
    owner.remove(b"k")
    owner.take()
    change(owner, b"k", ListValue, Change.PUSH_LEFT, b"x")
    assert apply_all(backup, owner.take()) == []
    assert parts(backup) == parts(owner)


def test_taking_the_last_item_removes_the_key_on_both_sides() -> None:
    owner, backup = fragment(), fragment(0)
    change(owner, b"s", SetValue, Change.ADD, b"a")
    version = owner.version_of(b"s")
    apply_all(backup, owner.take())
    change(owner, b"s", SetValue, Change.REMOVE, b"a")
    ((key, record),) = owner.take()
    assert kind_of(record) is Kind.GONE
    assert (owner.records, owner.used) == ({}, 0)
    taken = version + bytes([Change.REMOVE]) + pack([b"a"])
    later = build(version_of(record), Kind.SET | CHANGE, NEVER, taken)
    assert backup.apply(key, later), "an owner may also say it as the operation"
    assert (backup.records, backup.used) == ({}, 0)


def test_versions_are_of_the_reign() -> None:
    owner = fragment(3)
    owner.put(b"k", b"v")
    assert owner.version_of(b"k") == bytes([0, 0, 0, 3, 0, 0, 0, 0, 0, 1])
    owner.reign(4)
    owner.put(b"k", b"v", 77)
    assert owner.version_of(b"k") == bytes([0, 0, 0, 4, 0, 0, 0, 0, 0, 2])
    assert owner.version_of(b"other") == ABSENT


def test_numbers_go_on_where_they_were() -> None:
    owner, backup = fragment(), fragment(0)
    for value in (b"a", b"b", b"c"):
        owner.put(b"k", value)
    apply_all(backup, owner.take())
    assert backup.counter == 3
    backup.apply(b"k", build(ABSENT, Kind.STRING, NEVER, b"old"))
    assert backup.counter == 3


def test_values_say_what_they_are() -> None:
    owner = fragment()
    owner.put(b"k", b"v", 9)
    change(owner, b"h", HashValue, Change.SET, b"f", b"1")
    shown = {
        key: (kind_of_value(each), expiry_of_value(each)) for key, each in owner.records.items()
    }
    assert shown == {b"k": (Kind.STRING, 9), b"h": (Kind.HASH, NEVER)}
    assert owner.take() == [(key, owner.record_of(key)) for key in owner.records]
    assert owner.take() == []


def test_who_wants_to_know_when_a_key_was_used() -> None:
    wanted = [NameSettings(idle_ms=1), NameSettings(eviction=Eviction.LRU), NameSettings()]
    assert [Fragment(b"n", each, 1).touched_wanted for each in wanted] == [True, True, False]


def test_expiries_of_what_is_written_again_and_again_do_not_fill_the_memory() -> None:
    owner, backup = fragment(), fragment(0)
    owner.put(b"other", b"v")
    for index in range(20 * DEADLINES_SPARE):
        owner.put(b"k", b"v", 1000 + index)
        apply_all(backup, owner.take())
    for each in (owner, backup):
        assert len(each.expiring) <= DEADLINES_SPARE + 4
        assert (1000 + 20 * DEADLINES_SPARE - 1, b"k") in each.expiring
    change(owner, b"s", SetValue, Change.ADD, b"a")
    change(owner, b"s", SetValue, Change.EXPIRE, number(5))
    apply_all(backup, owner.take())
    change(owner, b"s", SetValue, Change.EXPIRE, number(NEVER))
    apply_all(backup, owner.take())
    assert (5, b"s") in owner.expiring
    assert (5, b"s") in backup.expiring
    assert expiry_of_value(backup.records[b"s"]) == NEVER


def test_container_of_a_name_with_life_expires_everywhere() -> None:
    owner, backup = fragment(), fragment(0)
    owner.change(b"s", SetValue(expiry=50), Change.ADD, [b"a"])
    apply_all(backup, owner.take())
    assert owner.expiring == backup.expiring == [(50, b"s")]


# Merging ------------------------------------------------------------------------------------------


@given(STEPS, STEPS)
def test_merge_takes_what_is_newer_and_nothing_else(steps: list[Step], later: list[Step]) -> None:
    owner, held = fragment(), fragment(0)
    for step in steps:
        perform(owner, step)
    old = [entry for block in owner.entries(10) for entry in block]
    for step in later:
        perform(owner, step)
    new = [entry for block in owner.entries(10) for entry in block]
    for key, record in new:
        assert held.merge(key, record)
    before = parts(held)
    assert not any(held.merge(key, record) for key, record in new)
    brought = {(key, kind_of(record) is Kind.LOCK) for key, record in new}
    for key, record in old:
        is_new = (key, kind_of(record) is Kind.LOCK) not in brought
        assert held.merge(key, record) == is_new
    if brought >= {(key, kind_of(record) is Kind.LOCK) for key, record in old}:
        assert parts(held) == before
    check_sizes(held)


def test_merge_takes_that_a_key_is_gone() -> None:
    owner, held = fragment(), fragment(0)
    owner.put(b"k", b"1")
    apply_all(held, owner.take())
    owner.remove(b"k")
    ((key, record),) = owner.take()
    assert held.merge(key, record)
    assert (held.records, held.used) == ({}, 0)


@pytest.mark.parametrize("flags", [Kind.EMPTIED, Kind.SET | CHANGE])
def test_merge_wants_whole_records(flags: int) -> None:
    with pytest.raises(MessageError, match="can't be merged by its version"):
        fragment().merge(b"k", build(bytes([1] * 10), flags, NEVER, b""))


# Blocks -------------------------------------------------------------------------------------------


@given(STEPS, st.lists(STEPS, max_size=8), st.integers(1, 200))
def test_blocks_have_what_is_there_all_the_time(
    before: list[Step], between: list[list[Step]], limit_bytes: int
) -> None:
    """Between two blocks anything may be written, removed and put again."""
    owner = fragment()
    for step in before:
        perform(owner, step)
    stays, locked = dict(parts(owner)[0]), dict(parts(owner)[1])
    walk = owner.entries(limit_bytes)
    got: dict[tuple[bytes, bool], bytes] = {}
    for index, block in enumerate(walk):
        size = sum(len(key) + len(record) for key, record in block)
        assert size <= limit_bytes or len(block) == 1
        for key, record in block:
            got[key, kind_of(record) is Kind.LOCK] = record
        for step in between[index] if index < len(between) else ():
            perform(owner, step)
            stays = {key: stays[key] for key in stays if key in owner.records}
            locked = {key: locked[key] for key in locked if key in owner.locks}
    assert {(key, False) for key in stays} | {(key, True) for key in locked} <= got.keys()
    for key, record in stays.items():
        if owner.record_of(key) == record:
            assert got[key, False] == record


def test_record_larger_than_a_block_is_a_block() -> None:
    owner = fragment()
    for key in (b"a", b"b", b"c"):
        owner.put(key, bytes(100) if key == b"b" else b"")
    assert [[key for key, _ in block] for block in owner.entries(50)] == [[b"a"], [b"b"], [b"c"]]
    assert [[key for key, _ in block] for block in owner.entries(999)] == [[b"a", b"b", b"c"]]
    assert list(fragment().entries(50)) == []


def test_what_goes_during_the_walk_is_in_no_later_block() -> None:
    """The walk is at most one entry ahead of the blocks."""
    owner = fragment()
    for key in (b"a", b"b", b"c"):
        owner.put(key, b"v")
        owner.lock(key, 1, b"session", 5)
    walk = owner.entries(1)
    seen = [next(walk)]
    owner.remove(b"c")
    seen += [next(walk), next(walk)]
    owner.lock(b"c", 0, b"", NEVER)
    seen += walk
    shown = [(key, kind_of(record)) for block in seen for key, record in block]
    assert shown == [(key, kind) for kind in (Kind.STRING, Kind.LOCK) for key in (b"a", b"b")]


# Corrupt records ----------------------------------------------------------------------------------

VERSION = bytes([0, 0, 0, 1, 0, 0, 0, 0, 0, 1])


def held_set() -> Fragment:
    """A set of one member, with the version of above."""
    held = fragment(0)
    held.apply(b"s", build(VERSION, Kind.SET, NEVER, pack([b"a"])))
    return held


@pytest.mark.parametrize(
    ("flags", "body", "text"),
    [
        (Kind.SET | CHANGE, b"", "no operation on a container"),
        (Kind.SET | CHANGE, VERSION, "no operation on a container"),
        (Kind.SET | CHANGE, VERSION + b"\xff", "no operation on a container"),
        (Kind.SET | CHANGE, VERSION + b"\x01\0\0", "runs past the end"),
        (Kind.SET | CHANGE, VERSION + b"\x03", "SET is no operation of a set"),
        (Kind.HASH | CHANGE, VERSION + b"\x02", "a SET can't be changed as a HASH"),
        (Kind.SET, b"\0\0\0\x05a", "runs past the end"),
        (Kind.HASH, pack([b"a"]), "items of a hash"),
        (Kind.LOCK, b"short", "ends within its token"),
    ],
)
def test_corrupt_mutation_is_refused_and_changes_nothing(
    flags: int, body: bytes, text: str
) -> None:
    held = held_set()
    before, used = parts(held), held.used
    with pytest.raises(MessageError, match=text):
        held.apply(b"s", build(bytes([9] * 10), flags, NEVER, body))
    assert (parts(held), held.used) == (before, used)


@given(st.binary(max_size=40), st.sampled_from([b"s", b"k", b""]))
def test_any_bytes_are_a_record_or_refused(record: bytes, key: bytes) -> None:
    held = held_set()
    before = parts(held)
    try:
        held.apply(key, record)
    except MessageError:
        assert parts(held) == before
    check_sizes(held)


def test_change_of_a_string_breaks_it() -> None:
    held = fragment(0)
    held.apply(b"k", build(VERSION, Kind.STRING, NEVER, b"text"))
    body = VERSION + bytes([Change.ADD]) + pack([b"a"])
    assert not held.apply(b"k", build(bytes([9] * 10), Kind.SET | CHANGE, NEVER, body))
