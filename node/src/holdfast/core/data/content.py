"""What two copies of a fragment have in common: versions, trees, lists.

Whoever has everything up to a point of a history lacks what has a later version, and what was
removed since (`removals`). Only where no point is known, or not what was removed, a tree tells.

The tree of `merkle` knows entries of key hash and version. A version here is ten bytes; as a number
it is never 0, because the number of a mutation never is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.core.data.journal import Gap, Journal
from holdfast.core.data.merkle import Tree, differing, hash_of
from holdfast.core.data.vectors import Known, Point
from holdfast.core.data_messages import Mutations
from holdfast.core.stores.fragment import TOKEN_BYTES, Fragment, Mutation, version_of_value
from holdfast.core.stores.incoming import Incoming
from holdfast.core.stores.record import (
    ABSENT,
    FLAGS_AT,
    FREE,
    NEVER,
    Kind,
    build,
    kind_of,
    version_at,
)
from holdfast.errors import MessageError

WHATEVER: Final = build(ABSENT, Kind.STRING, NEVER, b"")
"""Says of a mutation that it is of a key: what has become of that is looked up (`change_of`)."""


def tree_of(fragment: Fragment) -> Tree:
    """The tree of everything that is in a fragment; from now on it follows every write."""
    tree = fragment.tree
    if not isinstance(tree, Tree):
        tree = fragment.tree = Tree(fragment.settings.merkle_depth)
        tree.noted = dict.fromkeys(fragment.records, ABSENT)
    tree.settle(fragment.version_of)
    return tree


def digest_of(fragment: Fragment) -> bytes:
    """What goes to the owner."""
    return tree_of(fragment).digest()


def differing_leaves(fragment: Fragment, digest: bytes) -> tuple[int, ...]:
    """Where the other's tree is not mine; everywhere, if it is nothing to compare with."""
    tree = tree_of(fragment)
    try:
        return tuple(differing(digest, tree))
    except MessageError:
        return tuple(range(len(tree.leaves)))


def keys_in(fragment: Fragment, leaves: Collection[int], depth: int) -> Iterator[tuple[int, bytes]]:
    """The keys that lie in these leaves of a tree of this depth, with their leaf."""
    mask = 2 ** (depth - 1) - 1
    for key in fragment.records:
        leaf = hash_of(key) & mask
        if leaf in leaves:
            yield leaf, key


def changed_since(
    fragment: Fragment, journal: Journal, known: Known, *, looks: bool = True
) -> Mutations | None:
    """A mutation for each key and each lock that has changed since a replica was there; None where
    that is not known, or all keys went. It `looks` at everything here, if the journal is short."""
    missed = journal.since(known)
    here: list[Mutation] = []
    if looks and isinstance(missed, Gap):
        missed, here = journal.removed_since(known), _here_since(fragment, known.whole)
    if isinstance(missed, Gap):
        return None
    changed: dict[tuple[bytes, bool], Mutation] = {}
    for mutation in (*missed, *here):
        key, record = mutation
        kind = record[FLAGS_AT] and kind_of(record)
        if kind is Kind.EMPTIED:
            return None
        changed[key, kind is Kind.LOCK] = mutation
    return tuple(changed.values())


def _here_since(fragment: Fragment, point: Point) -> list[Mutation]:
    """The keys and the locks here whose last mutation is a later one."""
    after = version_at(point.epoch, point.counter + 1)
    changed = [
        (key, WHATEVER)
        for key, value in fragment.records.items()
        if (value if type(value) is bytes else version_of_value(value)) >= after
    ]
    changed += ((key, FREE) for key, lock in fragment.locks.items() if lock.version >= after)
    return changed


@dataclass(frozen=True, slots=True)
class ListedDifference:
    """What to ask for, and what to remove."""

    send: tuple[bytes, ...]
    delete: tuple[bytes, ...]


def listed_difference(
    incoming: Incoming, listed: Mutations, leaves: tuple[int, ...], depth: int
) -> ListedDifference:
    """How a copy differs in some leaves from the keys and versions that the owner lists there.

    What was heard of a key since counts: a mutation may have come after the list was made.
    """
    fragment, theirs = incoming.fragment, dict(listed)
    send = tuple(
        key
        for key, version in theirs.items()
        if fragment.version_of(key) != version and not incoming.heard_after(key, version)
    )
    mine = (key for _, key in keys_in(fragment, frozenset(leaves), depth))
    return ListedDifference(send, incoming.absent(theirs, mine))


def records_of(fragment: Fragment, keys: Iterable[bytes]) -> Mutations:
    """Values and locks as they are now; GONE, or a lock that nobody holds, for what is not."""
    listed = tuple(keys)
    locks = ((key, lock_or_free(fragment, key)) for key in listed)
    return (*((key, record_or_gone(fragment, key)) for key in listed), *locks)


def changes_of(fragment: Fragment, mutations: Mutations) -> Mutations:
    """What has become of all that these have changed, by now: of keys, of locks, and of every key
    there is if they emptied it."""
    emptied: Mutations = ()
    keys: dict[bytes, None] = {}
    locks: dict[bytes, None] = {}
    for key, record in mutations:
        if record[FLAGS_AT]:  # a plain string's are zero
            kind = kind_of(record)
            if kind is Kind.LOCK:
                locks[key] = None
                continue
            if kind is Kind.EMPTIED:
                emptied, keys = ((key, record),), dict.fromkeys(fragment.records)
                continue
        keys[key] = None
    return (
        *emptied,
        *((key, record_or_gone(fragment, key)) for key in keys),
        *((key, lock_or_free(fragment, key)) for key in locks),
    )


def change_of(fragment: Fragment, mutation: Mutation) -> Mutation:
    """The same of one that has changed a key or a lock, and not all there is."""
    key, record = mutation
    if record[FLAGS_AT] and kind_of(record) is Kind.LOCK:
        return key, lock_or_free(fragment, key)
    return key, record_or_gone(fragment, key)


def version_now(fragment: Fragment) -> bytes:
    """The version of the last mutation: what is said to be absent is so as of that."""
    return version_at(fragment.epoch, fragment.counter)


def lock_or_free(fragment: Fragment, key: bytes) -> bytes:
    """The lock on a key, or that there is none, as of now."""
    if key in fragment.locks:
        return fragment.lock_record(key)
    return build(version_now(fragment), Kind.LOCK, NEVER, bytes(TOKEN_BYTES))


def record_or_gone(fragment: Fragment, key: bytes) -> bytes:
    """The record of a key, or that there is none, as of now."""
    if key in fragment.records:
        return fragment.record_of(key)
    return build(version_now(fragment), Kind.GONE, NEVER, b"")
