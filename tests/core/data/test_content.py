"""What two copies have in common, against plain dictionaries."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.data.content import (
    change_of,
    changed_since,
    changes_of,
    differing_leaves,
    digest_of,
    keys_in,
    listed_difference,
    records_of,
)
from holdfast.core.data.journal import Journal
from holdfast.core.data.merkle import hash_of
from holdfast.core.data.vectors import Known, Lineage, Point
from holdfast.core.stores.fragment import NOTED_MAX, Fragment, Mutation
from holdfast.core.stores.incoming import Incoming
from holdfast.core.stores.record import NEVER, Kind, build, kind_of, version_of
from holdfast.core.stores.settings import NameSettings
from tests.core.stores.fragments import STEPS, Step, perform

DEPTH = 4
SHALLOW = replace(NameSettings(), merkle_depth=DEPTH)
"""Eight leaves: keys share them."""

KEYS = st.sampled_from([b"%d" % number for number in range(12)])
CONTENTS = st.dictionaries(KEYS, st.integers(1, 3))
"""Keys with the numbers of their versions."""


def version(number: int) -> bytes:
    return (1).to_bytes(4, "big") + number.to_bytes(6, "big")


def record(number: int) -> bytes:
    return build(version(number), Kind.STRING, NEVER, b"v%d" % number)


def fragment(content: dict[bytes, int]) -> Fragment:
    made = Fragment(b"name", SHALLOW, 1)
    for key, number in content.items():
        assert made.apply(key, record(number))
    return made


def is_value(record: bytes) -> bool:
    return kind_of(record) is not Kind.LOCK


def all_of(made: Fragment) -> list[Mutation]:
    return sorted(pair for block in made.entries(1 << 20) for pair in block)


@given(STEPS, STEPS, st.sampled_from([1, 4, 100]), st.booleans())
def test_what_has_changed_since_is_what_a_copy_lacks_however_little_the_journal_keeps(
    before: list[Step], since: list[Step], kept: int, promoted: bool
) -> None:
    lineage = Lineage.starting(1, 0)
    owner, copy = Fragment(b"name", SHALLOW, 1), Fragment(b"name", SHALLOW, 1)
    journal = Journal(lineage, 0, entries_max=kept)
    for step in before:
        perform(owner, step)
    made = owner.take()
    journal.extend(0, made)
    for mutation in made:
        assert copy.apply(*mutation)
    point = Point(1, owner.counter)
    if promoted:
        journal.begin(lineage.extended(2, owner.counter))
        owner.reign(2)
    for step in since:
        perform(owner, step)
    missed = owner.take()
    journal.extend(point.counter, missed)
    changed = changed_since(owner, journal, Known(point, point))
    emptied = any(kind_of(record) is Kind.EMPTIED for _, record in missed)
    assert (changed is None) is emptied
    names = {(key, kind_of(record) is Kind.LOCK) for key, record in missed}
    for mutation in changed or ():
        assert (mutation[0], kind_of(mutation[1]) is Kind.LOCK) in names
        assert copy.apply(*change_of(owner, mutation))
    assert changed is None or all_of(copy) == all_of(owner)
    assert changed is None or len(changed) == len(names)


def test_nobody_knows_what_has_changed_without_a_journal_or_on_another_history() -> None:
    owner, lineage = fragment({b"1": 1, b"2": 2}), Lineage.starting(1, 0)
    for journal, point in (
        (Journal(lineage, 0, entries_max=0), Point(1, 1)),
        (Journal(lineage, 0, entries_max=1), Point(2, 1)),
        (Journal(lineage, 0, entries_max=1), Point(1, 9)),
    ):
        journal.extend(0, [(b"1", record(1)), (b"2", record(2))])
        assert changed_since(owner, journal, Known(point, point)) is None


@given(CONTENTS)
def test_digest_tells_keys_and_versions_and_no_order(
    content: dict[bytes, int],
) -> None:
    other = dict(reversed(content.items()))
    assert digest_of(fragment(content)) == digest_of(fragment(other))
    changed = {**content, b"1": content.get(b"1", 0) + 1}
    assert digest_of(fragment(content)) != digest_of(fragment(changed))


@given(CONTENTS, CONTENTS)
def test_leaves_that_differ_are_those_of_keys_that_differ(
    mine: dict[bytes, int], theirs: dict[bytes, int]
) -> None:
    different = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    expected = sorted({hash_of(key) & 7 for key in different})
    assert list(differing_leaves(fragment(mine), digest_of(fragment(theirs)))) == expected


@given(CONTENTS, st.frozensets(st.integers(0, 7)))
def test_keys_are_listed_with_the_leaf_that_they_lie_in(
    content: dict[bytes, int], leaves: frozenset[int]
) -> None:
    found = sorted(keys_in(fragment(content), leaves, DEPTH))
    assert found == sorted((hash_of(key) & 7, key) for key in content if hash_of(key) & 7 in leaves)


@given(CONTENTS, CONTENTS)
def test_copy_that_does_what_the_difference_says_has_what_the_owner_has(
    mine: dict[bytes, int], theirs: dict[bytes, int]
) -> None:
    copy, owner = fragment(mine), fragment(theirs)
    leaves = differing_leaves(owner, digest_of(copy))
    listed = tuple((key, owner.version_of(key)) for _, key in keys_in(owner, leaves, DEPTH))
    difference = listed_difference(Incoming(copy), listed, leaves, DEPTH)
    assert set(difference.send) == {k for k in theirs if mine.get(k) != theirs[k]}
    assert set(difference.delete) == set(mine) - set(theirs)
    for key, newer in records_of(owner, difference.send):
        copy.apply(key, newer)
    for key in difference.delete:
        copy.apply(key, build(version(9), Kind.GONE, NEVER, b""))
    assert copy.records == owner.records


@settings(max_examples=300)
@given(st.data())
def test_sync_while_mutations_lag_behind_ends_with_what_the_owner_has(data: st.DataObject) -> None:
    """Mutations come in their order, at any time; answers overtake them or not. In the end those
    that are in the answer are never heard."""
    owner, copy, log, heard = fragment({}), fragment({}), list[Mutation](), 0
    incoming: Incoming | None = None

    def live() -> None:
        """The owner writes, and the copy hears some of what was written until now."""
        nonlocal heard
        for key, removes in data.draw(st.lists(st.tuples(KEYS, st.booleans()), max_size=6)):
            if not removes:
                owner.put(key, b"v")
            elif key in owner.records:
                owner.remove(key)
        log.extend(owner.take())
        until = data.draw(st.integers(heard, len(log)))
        for key, record in log[heard:until]:
            if incoming is not None:
                incoming.mutation(key, record)
            elif data.draw(st.booleans()):  # lost: that is why it asks
                copy.apply(key, record)
        heard = until

    live()
    incoming = Incoming(copy)
    digest = digest_of(copy)
    live()
    leaves, answered = differing_leaves(owner, digest), len(log)
    live()
    incoming.settle(version(answered), version(heard))
    live()
    listed = tuple((key, owner.version_of(key)) for _, key in keys_in(owner, leaves, DEPTH))
    live()
    difference = listed_difference(incoming, listed, leaves, DEPTH)
    incoming.remove(difference.delete)
    wanted = {*difference.send, *incoming.wanted}
    while wanted:
        live()
        records = records_of(owner, sorted(wanted))
        live()
        incoming.block(records)
        wanted = {*incoming.wanted}
    for key, record in log[max(heard, answered) :]:
        copy.apply(key, record)
    assert copy.records == owner.records


def test_what_was_heard_of_a_key_since_the_list_was_made_counts() -> None:
    copy = fragment({b"changed": 1, b"kept": 1})
    incoming = Incoming(copy)
    incoming.mutation(b"changed", record(5))
    incoming.mutation(b"new", record(6))
    leaves = tuple(range(8))
    difference = listed_difference(incoming, ((b"changed", version(2)),), leaves, DEPTH)
    assert (difference.send, difference.delete) == ((), (b"kept",))


def test_key_that_is_not_there_any_more_is_gone_as_of_now() -> None:
    held = fragment({b"a": 1})
    held.counter = 7
    values = [(key, each) for key, each in records_of(held, [b"a", b"b"]) if is_value(each)]
    assert values[0] == (b"a", record(1))
    assert (kind_of(values[1][1]), version_of(values[1][1])) == (Kind.GONE, version(7))


def test_lock_of_a_key_goes_with_it_and_so_does_that_there_is_none() -> None:
    held = fragment({b"a": 1})
    held.counter = 7
    held.lock(b"a", 8, b"session", 99)
    locks = [each for _, each in records_of(held, [b"a", b"b"]) if not is_value(each)]
    other = fragment({b"a": 1})
    other.lock(b"b", 2, b"session", 99)
    for key, each in zip((b"a", b"b"), locks, strict=True):
        other.apply(key, each)
    assert other.locks == held.locks


def test_of_what_was_changed_goes_what_it_is_now() -> None:
    held = fragment({b"a": 3, b"untouched": 1})
    held.counter = 7
    gone = build(version(4), Kind.GONE, NEVER, b"")
    lock = build(version(5), Kind.LOCK, NEVER, bytes(8))
    found = changes_of(held, ((b"a", record(1)), (b"b", record(2)), (b"b", gone), (b"c", lock)))
    assert found[0] == (b"a", record(3))
    assert [key for key, _ in found] == [b"a", b"b", b"c"]
    assert [kind_of(each) for _, each in found[1:]] == [Kind.GONE, Kind.LOCK]
    assert found == tuple(change_of(held, (key, each)) for key, each in found)


def test_of_a_fragment_that_was_emptied_goes_that_and_all_that_is_there_now() -> None:
    held = fragment({b"kept": 5, b"new": 9})
    emptied = build(version(7), Kind.EMPTIED, NEVER, b"")
    mutations = ((b"old", record(2)), (b"", emptied), (b"later", record(8)))
    found = changes_of(held, mutations)
    copy = fragment({b"old": 1, b"older": 1})
    for key, each in found:
        copy.apply(key, each)
    assert copy.records == held.records


def test_tree_follows_more_keys_than_are_noted() -> None:
    held = fragment({b"1": 1})
    digest_of(held)
    for round_ in range(2):
        for number in range(2, NOTED_MAX + 9):
            held.put(b"%d" % number, b"v%d" % round_)
    held.remove(b"2")
    assert held.tree is not None
    assert 0 < len(held.tree.noted) <= NOTED_MAX
    fresh = Fragment(b"name", SHALLOW, 1)
    fresh.load({key: held.record_of(key) for key in held.records})
    assert digest_of(held) == digest_of(fresh)


def test_tree_is_made_when_it_is_asked_for_and_then_follows() -> None:
    held = fragment({b"1": 1, b"2": 2})
    assert held.tree is None
    first = digest_of(held)
    tree = held.tree
    held.apply(b"3", record(3))
    assert held.tree is tree
    assert digest_of(held) == digest_of(fragment({b"1": 1, b"2": 2, b"3": 3})) != first
    held.clear()
    assert held.tree is None
    assert digest_of(held) == digest_of(fragment({}))


@given(CONTENTS, CONTENTS)
def test_members_with_trees_of_other_depths_find_what_differs(
    mine: dict[bytes, int], theirs: dict[bytes, int]
) -> None:
    copy = Fragment(b"name", replace(SHALLOW, merkle_depth=6), 1)
    for key, number in mine.items():
        copy.apply(key, record(number))
    owner = fragment(theirs)
    leaves = differing_leaves(owner, digest_of(copy))
    listed = tuple((key, owner.version_of(key)) for _, key in keys_in(owner, leaves, DEPTH))
    difference = listed_difference(Incoming(copy), listed, leaves, DEPTH)
    assert set(difference.send) == {k for k in theirs if mine.get(k) != theirs[k]}
    assert set(difference.delete) == set(mine) - set(theirs)


def test_what_is_no_digest_differs_everywhere() -> None:
    for digest in (b"", b"?", bytes(24)):
        assert differing_leaves(fragment({b"1": 1}), digest) == tuple(range(8))
