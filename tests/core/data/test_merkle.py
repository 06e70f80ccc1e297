"""Trees show every difference and nothing else; a rebuild counts every write exactly once."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.core.data.merkle import (
    DEPTH_DEFAULT,
    DEPTH_MAX,
    DEPTH_MIN,
    DIGEST_BYTES_MAX,
    PRIME,
    Difference,
    Rebuild,
    Tree,
    difference,
    differing,
    hash_of,
    listing,
    select,
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


# --- the keys ------------------------------------------------------------------------------------


@given(STORES, STORES, DEPTHS)
def test_exactly_the_changed_keys_travel(
    mine: dict[int, int], theirs: dict[int, int], depth: int
) -> None:
    """The whole way: digest, leaves, entries below them, difference, and the replica is equal."""
    leaves = differing(tree_of(theirs, depth).digest(), tree_of(mine, depth))
    my_entries: dict[int, int] = {}
    listing(select(mine.items(), leaves, depth), my_entries)
    their_entries: dict[int, int] = {}
    listing(select(theirs.items(), leaves, depth), their_entries)
    found = difference(mine=my_entries, theirs=their_entries)
    assert sorted([*found.send, *found.delete]) == changed(mine, theirs)
    for key_hash in found.send:
        theirs[key_hash] = mine[key_hash]
    for key_hash, version in found.delete.items():
        assert theirs.pop(key_hash) == version
    assert theirs == mine


def test_equal_replicas_send_nothing_and_keys_may_be_bytes() -> None:
    store = {b"a": 1, b"b": 2}
    assert difference(mine=store, theirs=store) == Difference((), {})
    assert difference(mine=store, theirs={b"b": 3, b"c": 4}) == Difference((b"a", b"b"), {b"c": 4})


def test_keys_with_one_hash_are_one_entry() -> None:
    entries: dict[int, int] = {}
    listing([(5, 1), (6, 2)], entries)
    listing([(5, 3)], entries)
    assert entries == {5: 4, 6: 2}


# --- a rebuild while writes go on ----------------------------------------------------------------


class Rebuilding(RuleBasedStateMachine):
    """A store, its tree, which is damaged now and then, and rebuilds in slices between writes.

    Half of the rebuilds note down keys and versions when they begin; the others the keys alone,
    show the version of the moment, and are told of each write. The oracle is a tree made afresh.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[int, int] = {}
        self.tree = Tree(3)
        self.damage = [0] * 4
        self.rebuild: Rebuild | None = None
        self.version = 0

    @rule(key_hash=st.sampled_from(HASHES[:8]), present=st.sampled_from([True, True, False]))
    def write(self, key_hash: int, present: bool) -> None:
        self.version += 1
        old, new = self.store.get(key_hash, 0), self.version if present else 0
        if self.rebuild is not None:
            self.rebuild.wrote(key_hash, old)
        self.tree.update(key_hash, old, new)
        if present:
            self.store[key_hash] = new
        else:
            self.store.pop(key_hash, None)

    @precondition(lambda self: self.rebuild is None)
    @rule(key_hash=st.sampled_from(HASHES[:8]), by=st.sampled_from([-5, 3]))
    def damaged(self, key_hash: int, by: int) -> None:
        self.tree.update(key_hash, 0, by)
        self.damage[key_hash & 3] += key_hash * by

    @precondition(lambda self: self.rebuild is None)
    @rule()
    def begin_with_versions(self) -> None:
        self.rebuild = Rebuild(self.tree, list(self.store.items()))

    @precondition(lambda self: self.rebuild is None)
    @rule()
    def begin_with_keys(self) -> None:
        def entries(keys: list[int]) -> Iterator[tuple[int, int]]:
            for key in keys:
                yield key, self.store.get(key, 0)

        self.rebuild = Rebuild(self.tree, entries(list(self.store)))

    @precondition(lambda self: self.rebuild is not None)
    @rule(count=st.integers(1, 4))
    def go_on(self, count: int) -> None:
        assert self.rebuild is not None
        if self.rebuild.step(count):
            assert self.rebuild.drifted == sum(error != 0 for error in self.damage)
            assert self.rebuild.step(count), "asking again changes nothing"
            self.damage = [0] * 4
            self.rebuild = None

    @invariant()
    def tree_is_right_but_for_the_damage(self) -> None:
        right = tree_of(self.store, 3).leaves
        assert self.tree.leaves == tuple(
            leaf + error for leaf, error in zip(right, self.damage, strict=True)
        )


TestRebuilding = Rebuilding.TestCase


def test_a_key_that_came_during_the_rebuild_may_be_shown() -> None:
    tree = Tree()
    rebuild = Rebuild(tree, iter([(HASHES[0], 9)]))
    rebuild.wrote(HASHES[0], 0)
    tree.update(HASHES[0], 0, 9)
    assert rebuild.step(10)
    assert rebuild.drifted == 0
    assert tree.leaves == tree_of({HASHES[0]: 9}).leaves
