"""Merkle trees: which records of two replicas differ, in one round trip and a list of a few leaves.

How a replica is brought up to date (seed 003, "Using Merkle trees"; `design/3` §6)
-----------------------------------------------------------------------------------
The cheapest way that is known to be enough, for each fragment:

    replica                                                owner
       │── point up to which nothing is missing, digest ──▶ │
       │                                                    │ 1 the same point, clean: nothing
       │                                                    │ 2 else what went since is known:
       │◀─────────── records of the keys changed since ──── │   exactly those keys
       │                                                    │ 3 else the digests:
       │◀─────────── numbers of the leaves that differ ──── │   none: nothing but the new vector
       │◀─────────── keys and versions below them ───────── │   page by page (`content`)
       │── keys that are missing, or of another version ──▶ │
       │◀─────────── their records ──────────────────────── │
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
* Only the first and the last version of a key count in it. So a key that is written is *noted*, and
  reckoned when somebody asks, or some are noted (`Fragment._note`): to write it again is free.

Why a sum of products is a hash. Two replicas differ in some versions, by d1, d2... not all zero.
Their nodes are equal only if h1*d1 + h2*d2 + ... is 0 modulo the prime. Whatever the others are,
that leaves one value for the last hash: one chance in 2^64 (universal hashing; Carter, Wegman).
Swapped versions of two keys differ by (h1 - h2) * (v1 - v2), so they show. It rests on key hashes
that look random, hence `hash_of`: small numbers instead of hashes would collide. Hashing each entry
(64-bit MurmurHash3 of key hash and version, combined by XOR) costs four times as much, and nodes
that hash their children would have to be kept or marked dirty with each write.

When there is a tree
--------------------
A fragment has none until it is first compared by content: then it is made from all that is there
(`content.tree_of`), and told of every version from then on (`Fragment.tree`). Most fragments never
are compared: their backups follow by numbers, their destinations begin empty. To keep trees for all
would cost each write a hash, and 4 to 28 KiB for each of thousands of fragments. One that was
compared is likely to be again, by the next backup that comes back; then its digest costs the number
of leaves, however much data there is. So nothing is ever reckoned anew in the background: what is
not followed is not there, and a tree that was made is right.

States
------
The leaves, and what is noted and not in them yet. `content.tree_of` gives it with nothing noted.

What can go wrong
-----------------
* A write is not told, or with a wrong old version: its leaf is off. Replicas then compare entries
  for nothing; none is lost, as the lists of keys and versions decide.
* Two keys with one hash are one entry, whose version is the sum: their leaf still tells whether
  either differs, and lists name keys, not hashes.
* Data moves on while lists travel. What was heard of a key since counts (`content`).
* Settings differ between members while they are changed one by one: so do the depths of trees.
  Digests compare all the same, and the list of leaves says of which depth it is.
* Keys can be made whose sums agree, as MurmurHash3 is no secret. Who does so hides a difference
  between replicas of his own data, until the journal or a new version shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import add
from typing import Final

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


_digest: Final = mmh3.mmh3_x64_128_utupledigest
_number: Final = int.from_bytes
"""Big-endian, as that is its default."""


def hash_of(key: bytes) -> int:
    """The key hash that the tree is made for: 64 bits, never 0, as 0 times any version is 0."""
    return _digest(key, HASH_SEED)[0] or 1


class Tree:
    """The tree of one fragment. It knows no keys: it is told of every write."""

    __slots__ = ("_leaves", "_mask", "depth", "noted")

    def __init__(self, depth: int = DEPTH_DEFAULT) -> None:
        if not DEPTH_MIN <= depth <= DEPTH_MAX:
            raise LocalProtocolError(f"depth must be {DEPTH_MIN} to {DEPTH_MAX}, not {depth}")
        self.depth = depth
        self._leaves = [0] * 2 ** (depth - 1)
        self._mask = len(self._leaves) - 1
        self.noted: dict[bytes, bytes] = {}
        """Keys that were written since the leaves were right, with the versions of then."""

    def update(self, key_hash: int, old_version: int, new_version: int) -> None:
        """A put (old 0), a replacement, or a removal (new 0). Called with every write."""
        self._leaves[key_hash & self._mask] += key_hash * (new_version - old_version)

    def settle(self, version_of: Callable[[bytes], bytes]) -> None:
        """The leaves are right again, for the versions that the noted keys have now."""
        leaves, mask = self._leaves, self._mask
        for key, old in self.noted.items():
            key_hash = _digest(key, HASH_SEED)[0] or 1  # `hash_of`, without a call
            leaves[key_hash & mask] += key_hash * (_number(version_of(key)) - _number(old))
        self.noted.clear()

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
