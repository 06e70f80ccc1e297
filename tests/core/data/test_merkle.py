"""Trees show every difference and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.core.data.merkle import (
    DEPTH_DEFAULT,
    DEPTH_MAX,
    DEPTH_MIN,
    DIGEST_BYTES_MAX,
    PRIME,
    Tree,
    differing,
    hash_of,
)
from holdfast.errors import LocalProtocolError, MessageError

HASHES = [hash_of(f"key:{number}".encode()) for number in range(60)]
VERSIONS = st.integers(1, 2**63 - 1) | st.integers(1, 5)
STORES = st.dictionaries(st.sampled_from(HASHES), VERSIONS, max_size=40)
DEPTHS = st.integers(DEPTH_MIN, 7)


def tree_of(store: Mapping[int, int], depth: int = DEPTH_DEFAULT) -> Tree:
    tree = Tree(depth)
    for key_hash, version in store.items():
        tree.update(key_hash, 0, version)
    return tree


def changed(mine: Mapping[int, int], theirs: Mapping[int, int]) -> list[int]:
    """The oracle: hashes whose versions differ."""
    return [key for key in sorted({**mine, **theirs}) if mine.get(key) != theirs.get(key)]


# --- a tree --------------------------------------------------------------------------------------


def test_hash_of_a_key_is_stable_and_never_0() -> None:
    assert hash_of(b"users:42") == 0xB7C7_9089_FB3D_E728
    assert hash_of(b"") != 0
    assert all(0 < key_hash < 2**64 for key_hash in HASHES)


@given(st.lists(st.tuples(st.sampled_from(HASHES), st.just(0) | VERSIONS)), DEPTHS)
def test_a_tree_depends_on_what_is_there_not_on_how_it_came(
    writes: list[tuple[int, int]], depth: int
) -> None:
    store: dict[int, int] = {}
    tree = Tree(depth)
    for key_hash, version in writes:
        tree.update(key_hash, store.get(key_hash, 0), version)
        store[key_hash] = version
    right = tree_of(store, depth)
    assert tree.leaves == right.leaves
    assert (tree.root, tree.digest()) == (right.root, right.digest())


def test_of_a_key_that_is_noted_the_first_and_the_last_version_count() -> None:
    tree, key = Tree(), b"users:42"
    tree.noted[key] = bytes(10)
    tree.settle({key: (9).to_bytes(10, "big")}.__getitem__)
    assert tree.leaves == tree_of({hash_of(key): 9}).leaves
    assert not tree.noted
    tree.noted[key] = (9).to_bytes(10, "big")
    tree.settle(lambda _: bytes(10))
    assert tree.root == 0


@given(STORES, DEPTHS)
def test_each_node_is_the_sum_of_its_children(store: dict[int, int], depth: int) -> None:
    tree = tree_of(store, depth)
    assert tree.nodes(0) == [tree.root]
    for level in range(depth - 1):
        nodes, below = tree.nodes(level), tree.nodes(level + 1)
        count = len(nodes)
        assert nodes == [(below[i] + below[i + count]) % PRIME for i in range(count)]


@given(STORES, STORES)
def test_roots_are_equal_only_if_all_is(mine: dict[int, int], theirs: dict[int, int]) -> None:
    assert (tree_of(mine).root == tree_of(theirs).root) == (mine == theirs)


@given(st.permutations(HASHES), VERSIONS, VERSIONS)
def test_swapped_versions_in_one_leaf_show(hashes: list[int], first: int, second: int) -> None:
    assume(first != second)
    one = hashes[0]
    two = next(other for other in hashes[1:] if other & 1 == one & 1)
    mine, theirs = tree_of({one: first, two: second}, 2), tree_of({one: second, two: first}, 2)
    assert differing(mine.digest(), theirs) == [one & 1]


@pytest.mark.parametrize("depth", [DEPTH_MIN - 1, DEPTH_MAX + 1])
def test_depth_has_limits(depth: int) -> None:
    with pytest.raises(LocalProtocolError, match="depth"):
        Tree(depth)


@pytest.mark.parametrize("level", [-1, DEPTH_DEFAULT])
def test_a_level_must_exist(level: int) -> None:
    with pytest.raises(LocalProtocolError, match="level"):
        Tree().nodes(level)


# --- one round trip ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "size", "nodes"),
    [(10, 16_384, 512), (12, 16_384, 2048), (16, 16_384, 2048), (10, 4095, 256), (10, 8, 1)],
)
def test_the_deepest_level_that_fits_is_sent(depth: int, size: int, nodes: int) -> None:
    tree = tree_of(dict.fromkeys(HASHES, 7), depth)
    digest = tree.digest(size)
    assert len(digest) == nodes * 8 <= size
    assert list(struct.unpack(f">{nodes}Q", digest)) == tree.nodes(nodes.bit_length() - 1)


def test_a_digest_has_a_node_at_least() -> None:
    with pytest.raises(LocalProtocolError, match="7 bytes"):
        Tree().digest(7)


@given(STORES, STORES, DEPTHS, DEPTHS, st.sampled_from([8, 40, 64, DIGEST_BYTES_MAX]))
def test_differing_leaves_are_those_below_unequal_nodes(
    mine: dict[int, int], theirs: dict[int, int], depth: int, other: int, size: int
) -> None:
    """The oracle knows the keys; depths may differ, and the digest may be of any level."""
    digest = tree_of(theirs, other).digest(size)
    nodes = min(len(digest) // 8, 2 ** (depth - 1))
    unequal = [key_hash % nodes for key_hash in changed(mine, theirs)]
    expected = [leaf for leaf in range(2 ** (depth - 1)) if leaf % nodes in unequal]
    assert differing(digest, tree_of(mine, depth)) == expected


@pytest.mark.parametrize("size", [0, 7, 9, 24, 2**DEPTH_MAX * 8])
def test_a_digest_that_is_no_level_is_refused(size: int) -> None:
    with pytest.raises(MessageError, match=str(size)):
        differing(bytes(size), Tree())
