"""Merkle trees: which records of two replicas differ, in one round trip and a list of a few leaves.

How a replica is brought up to date (seed 003, "Using Merkle trees"; `design/3` §6)
-----------------------------------------------------------------------------------
The cheapest way that is known to be enough, for each fragment:

    replica                                                owner
       │── point up to which nothing is missing, digest ──▶ │
       │                                                    │ 1 the same point, clean: nothing
       │                                                    │ 2 else the journal reaches back:
       │◀─────────── records of the keys changed since ──── │   exactly those keys
       │                                                    │ 3 else the digests:
       │◀─────────── numbers of the leaves that differ ──── │   none: nothing but the new vector
       │── (key hash, version) of the entries below them ─▶ │   else `difference`
       │◀─────────── records to put, keys to delete ─────── │
       │                                                    │ 4 no tree: all records

The seed's prototype compared level by level, a round trip each. Here one message carries the
deepest level that fits its budget; levels above it would repeat it, as each node is a function of
those below it. The default tree (depth 10, 512 leaves) goes as 4 KiB; 16 KiB hold depth 12.

Rules
-----
* An entry is (key hash, version): 64 bits each, a version never 0. Version 0 means *absent*.
* It belongs to the leaf that the lowest bits of its key hash name. Node i of a level with n nodes
  has the leaves i, i + n, i + 2n... below it, so trees of different depths can be compared.
* A leaf is the sum of `key hash * version` over its entries, an exact integer. A write adds
  `key hash * (new - old)`: one multiplication, whatever was or is there; what is removed is
  gone without a trace. Nodes are sums of leaves modulo a prime of 64 bits, reckoned when asked for.

Why a sum of products is a hash. Two replicas differ in some versions, by d1, d2... not all zero.
Their nodes are equal only if h1*d1 + h2*d2 + ... is 0 modulo the prime. Whatever the others are,
that leaves one value for the last hash: one chance in 2^64 (universal hashing; Carter, Wegman).
Swapped versions of two keys differ by (h1 - h2) * (v1 - v2), so they show. It rests on key hashes
that look random, hence `hash_of`: small numbers instead of hashes would collide. Hashing each entry
(64-bit MurmurHash3 of key hash and version, combined by XOR) costs four times as much, and nodes
that hash their children would have to be kept or marked dirty with each write.

States
------
The tree has one, its leaves. A `Rebuild` is running or done; it takes the entries as they were when
it began, and in the end corrects each leaf *by the error that it had then*. Writes go on in the
tree meanwhile: they are differences, so they stay right whatever they are added to.

What can go wrong
-----------------
* A write is not told, or with a wrong old version: its leaf is off until a rebuild. Replicas then
  compare entries for nothing; none is lost, as the lists of entries decide. `Rebuild.drifted`
  says how many leaves were off: other than 0, there is a bug.
* Two keys with one hash are one entry, whose version is the sum: so must lists of entries do
  (`listing`), and whoever sends or deletes by hash means all keys that have it.
* Data moves on while lists travel. The owner reckons the difference with what it has *then*. A key
  is deleted only if its version is still the one that was listed; records go by per-key version.
* Keys can be made whose sums agree, as MurmurHash3 is no secret. Who does so hides a difference
  between replicas of his own data, until the journal or a new version shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import add
from typing import Final, Generic, TypeVar

import mmh3

from holdfast.errors import LocalProtocolError, MessageError

DEPTH_MIN: Final = 2
DEPTH_MAX: Final = 16
DEPTH_DEFAULT: Final = 10
"""Levels, the root among them: 512 leaves."""

DIGEST_BYTES_MAX: Final = 16_384
"""What the one round trip may carry (`design/3` §6)."""

NODE_BYTES: Final = 8
PRIME: Final = 2**64 - 59
"""The greatest prime of 64 bits: every difference of versions has an inverse."""

HASH_SEED: Final = 0x5EED1EAF
"""Not 0: the empty key would have the hash 0."""

Entry = tuple[int, int]
"""Key hash and version."""

Key = TypeVar("Key", bytes, int)


def hash_of(key: bytes) -> int:
    """The key hash that the tree is made for: 64 bits, never 0, as 0 times any version is 0."""
    return mmh3.mmh3_x64_128_utupledigest(key, HASH_SEED)[0] or 1


class Tree:
    """The tree of one fragment. It knows no keys: it is told of every write."""

    __slots__ = ("_leaves", "_mask", "depth")

    def __init__(self, depth: int = DEPTH_DEFAULT) -> None:
        if not DEPTH_MIN <= depth <= DEPTH_MAX:
            raise LocalProtocolError(f"depth must be {DEPTH_MIN} to {DEPTH_MAX}, not {depth}")
        self.depth = depth
        self._leaves = [0] * 2 ** (depth - 1)
        self._mask = len(self._leaves) - 1

    def update(self, key_hash: int, old_version: int, new_version: int) -> None:
        """A put (old 0), a replacement, or a removal (new 0). Called with every write."""
        self._leaves[key_hash & self._mask] += key_hash * (new_version - old_version)

    @property
    def leaves(self) -> tuple[int, ...]:
        """The exact sums. They compare within one depth."""
        return tuple(self._leaves)

    @property
    def root(self) -> int:
        """One number for the whole fragment."""
        return sum(self._leaves) % PRIME

    def nodes(self, level: int) -> list[int]:
        """The nodes of a level: 0 is the root, `depth` - 1 the leaves."""
        if not 0 <= level < self.depth:
            raise LocalProtocolError(f"level {level} of a tree of depth {self.depth}")
        return [node % PRIME for node in _folded(self._leaves, 2**level)]

    def digest(self, size_max_bytes: int = DIGEST_BYTES_MAX) -> bytes:
        """The deepest level that fits, as big-endian 64-bit numbers."""
        fits = (size_max_bytes // NODE_BYTES).bit_length() - 1
        if fits < 0:
            raise LocalProtocolError(f"no node fits {size_max_bytes} bytes")
        nodes = self.nodes(min(fits, self.depth - 1))
        return struct.pack(f">{len(nodes)}Q", *nodes)

    def correct(self, errors: Iterable[int]) -> None:
        """Take an error off each leaf (`Rebuild`)."""
        self._leaves = [leaf - error for leaf, error in zip(self._leaves, errors, strict=True)]


def _folded(numbers: list[int], count: int) -> list[int]:
    """`count` sums, each of every `count`-th number."""
    while len(numbers) > count:
        half = len(numbers) // 2
        numbers = list(map(add, numbers[:half], numbers[half:]))
    return numbers


def differing(digest: bytes, tree: Tree) -> list[int]:
    """The leaves of `tree` below the nodes in which the other's digest differs, in order."""
    count, rest = divmod(len(digest), NODE_BYTES)
    if rest or count.bit_count() != 1 or count > 2 ** (DEPTH_MAX - 1):
        raise MessageError(f"{len(digest)} bytes are no level of a tree")
    theirs = _folded(list(struct.unpack(f">{count}Q", digest)), 2 ** (tree.depth - 1))
    mine = tree.nodes(len(theirs).bit_length() - 1)
    unequal = [
        (their_node - my_node) % PRIME != 0
        for their_node, my_node in zip(theirs, mine, strict=True)
    ]
    return [leaf for leaf in range(2 ** (tree.depth - 1)) if unequal[leaf & (len(theirs) - 1)]]


def select(entries: Iterable[Entry], leaves: Collection[int], depth: int) -> Iterator[Entry]:
    """The entries that lie in these leaves of a tree of this depth; read it in slices."""
    mask = 2 ** (depth - 1) - 1
    return (entry for entry in entries if entry[0] & mask in leaves)


def listing(entries: Iterable[Entry], into: dict[int, int]) -> None:
    """Add a slice of entries to a list for `difference`: keys with one hash are one entry."""
    for key_hash, version in entries:
        into[key_hash] = into.get(key_hash, 0) + version


@dataclass(frozen=True, slots=True)
class Difference(Generic[Key]):
    """What makes a replica equal to its owner."""

    send: tuple[Key, ...]
    """Keys whose records the owner sends: absent there, or of another version."""

    delete: dict[Key, int]
    """Keys that only the replica has, with the version at which it may delete them."""


def difference(*, mine: Mapping[Key, int], theirs: Mapping[Key, int]) -> Difference[Key]:
    """`mine` is the owner's key → version and decides; `theirs` is the replica's."""
    return Difference(
        tuple(key for key, version in mine.items() if theirs.get(key) != version),
        {key: version for key, version in theirs.items() if key not in mine},
    )


class Rebuild:
    """Reckons a tree anew in slices, while it goes on being updated.

    `entries` shows each key that is there *now*, when the rebuild begins, exactly once, with the
    version that it has *now*. Where a later version is all that can be shown, as only the keys were
    noted down (a key that has gone is shown with any version), tell `wrote` of each write: it puts
    that right. A key that came later may be shown in that case.
    """

    __slots__ = ("_began", "_entries", "_sums", "_tree", "_written", "done", "drifted")

    def __init__(self, tree: Tree, entries: Iterable[Entry]) -> None:
        self._tree = tree
        self._entries = iter(entries)
        self._began = tree.leaves
        self._sums = Tree(tree.depth)
        self._written: dict[int, int] = {}
        self.done = False
        self.drifted = 0
        """When done: leaves that were wrong and have been corrected."""

    def wrote(self, key_hash: int, old_version: int) -> None:
        """A key was written while the rebuild runs; before the first time it was of `old_version`.

        To be called before the write shows in `entries`.
        """
        self._written.setdefault(key_hash, old_version)

    def step(self, entries_max: int) -> bool:
        """Take so many entries; true when it is done and the tree is right."""
        taken = 0
        for key_hash, version in islice(self._entries, entries_max):
            taken += 1
            self._sums.update(key_hash, 0, self._written.get(key_hash, version))
        if taken < entries_max and not self.done:
            self._finish()
        return self.done

    def _finish(self) -> None:
        errors = [
            began - right for began, right in zip(self._began, self._sums.leaves, strict=True)
        ]
        self._tree.correct(errors)
        self.drifted = sum(error != 0 for error in errors)
        self.done = True
