"""What two copies of a fragment have in common: trees, lists, versions as numbers.

The tree of `merkle` knows entries of key hash and version. A version here is ten bytes; as a number
it is never 0, because the number of a mutation never is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from holdfast.core.data.merkle import Tree, differing, hash_of
from holdfast.core.data_messages import Mutations
from holdfast.core.stores.fragment import TOKEN_BYTES, Fragment
from holdfast.core.stores.incoming import Incoming
from holdfast.core.stores.record import NEVER, Kind, build


def tree_of(fragment: Fragment) -> Tree:
    """The tree of everything that is in a fragment now."""
    tree = Tree(fragment.settings.merkle_depth)
    for key in fragment.records:
        tree.update(hash_of(key), 0, int.from_bytes(fragment.version_of(key), "big"))
    return tree


def digest_of(fragment: Fragment) -> bytes:
    """What goes to the owner."""
    return tree_of(fragment).digest()


def differing_leaves(fragment: Fragment, digest: bytes) -> tuple[int, ...]:
    """Where the other's tree is not mine."""
    return tuple(differing(digest, tree_of(fragment)))


def keys_in(fragment: Fragment, leaves: Collection[int]) -> Iterator[tuple[int, bytes]]:
    """The keys that lie in these leaves, with their leaf."""
    mask = 2 ** (fragment.settings.merkle_depth - 1) - 1
    for key in fragment.records:
        leaf = hash_of(key) & mask
        if leaf in leaves:
            yield leaf, key


@dataclass(frozen=True, slots=True)
class ListedDifference:
    """What to ask for, and what to remove."""

    send: tuple[bytes, ...]
    delete: tuple[bytes, ...]


def listed_difference(
    incoming: Incoming, listed: Mutations, leaves: tuple[int, ...]
) -> ListedDifference:
    """How a copy differs in some leaves from the keys and versions that the owner lists there.

    What was heard of a key since counts: a mutation may have come after the list was made.
    """
    fragment, theirs = incoming.fragment, dict(listed)
    send = tuple(
        key
        for key, version in theirs.items()
        if fragment.version_of(key) != version and not incoming.heard(key)
    )
    mine = keys_in(fragment, frozenset(leaves))
    absent = tuple(key for _, key in mine if key not in theirs and not incoming.heard(key))
    return ListedDifference(send, absent)


def records_of(fragment: Fragment, keys: Iterable[bytes]) -> Mutations:
    """Values and locks as they are now; GONE, or a lock that nobody holds, for what is not."""
    listed = tuple(keys)
    locks = ((key, lock_or_free(fragment, key)) for key in listed)
    return (*((key, record_or_gone(fragment, key)) for key in listed), *locks)


def version_now(fragment: Fragment) -> bytes:
    """The version of the last mutation: what is said to be absent is so as of that."""
    return fragment.epoch.to_bytes(4, "big") + fragment.counter.to_bytes(6, "big")


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
