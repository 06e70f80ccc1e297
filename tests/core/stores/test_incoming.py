"""A fragment that is received while it changes: blocks and mutations in every order."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from holdfast.core.stores.containers import Change, ListValue
from holdfast.core.stores.fragment import Fragment, Mutation
from holdfast.core.stores.incoming import WAITING_BYTES_MAX, Incoming
from holdfast.core.stores.record import (
    ABSENT,
    CHANGE,
    FLAGS_AT,
    NEVER,
    Kind,
    build,
    kind_of,
    version_of,
)
from holdfast.core.stores.settings import NameSettings
from holdfast.errors import MessageError
from tests.core.stores.fragments import KEYS, STEPS, WORDS, Step, change, perform, stranger
from tests.core.stores.replicas import check_sizes, parts


def fragment(epoch: int = 5) -> Fragment:
    """An empty one."""
    return Fragment(b"default", NameSettings(), epoch)


def records(of: Fragment) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """Whole records of keys and of locks."""
    return parts(of)[:2]


def end(incoming: Incoming, source: Fragment, *, everything: bool) -> None:
    """All blocks are here: what the source has not, goes."""
    held = incoming.fragment
    if everything:
        incoming.leave_unsent()
    else:
        incoming.remove([key for key in held.records if key not in source.records])
    incoming.free_others(source.locks)


class TransferMachine(RuleBasedStateMachine):
    """Blocks and mutations are each in order, but what comes next of both is anyone's guess.

    Whether the receiver held nothing, or a history that was given up, the end is the source's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.source = fragment()
        self.held = fragment(0)
        self.incoming: Incoming | None = None
        self.everything = False
        self.mutations: list[Mutation] = []
        self.blocks: list[list[Mutation]] = []

    @precondition(lambda self: self.incoming is None)
    @rule(steps=STEPS, limit=st.integers(1, 120), held=st.booleans(), everything=st.booleans())
    def begin(self, steps: list[Step], limit: int, *, held: bool, everything: bool) -> None:
        for step in steps:
            perform(self.source, step)
        self.source.take()
        if held:
            stranger(self.held)
        self.walk = self.source.entries(limit)
        self.incoming = Incoming(self.held)
        self.everything = everything
        if everything:
            self.incoming.expect_everything()

    @rule(word=st.sampled_from([*WORDS, *WORDS, *WORDS, "clear"]), key=KEYS, n=st.integers(0, 9))
    def write(self, word: str, key: bytes, n: int) -> None:
        if self.incoming is not None:
            perform(self.source, (word, key, n))  # type: ignore[arg-type]
            self.mutations += self.source.take()

    @precondition(lambda self: self.incoming is not None)
    @rule()
    def cut_a_block(self) -> None:
        self.blocks += [block for block in [next(self.walk, [])] if block]

    @precondition(lambda self: self.mutations)
    @rule()
    def mutation_arrives(self) -> None:
        self._mutation()

    @precondition(lambda self: self.blocks)
    @rule()
    def block_arrives(self) -> None:
        self._block(self.blocks.pop(0))

    def _mutation(self) -> None:
        assert self.incoming is not None
        self.incoming.mutation(*self.mutations.pop(0))

    def _block(self, block: Iterable[Mutation]) -> None:
        assert self.incoming is not None
        self.incoming.block(block)

    def teardown(self) -> None:
        """The rest comes."""
        if self.incoming is None:
            return
        for block in [*self.blocks, *self.walk]:
            self._block(block)
            if self.mutations:
                self._mutation()
        while self.mutations:
            self._mutation()
        assert not self.incoming.broken
        end(self.incoming, self.source, everything=self.everything)
        assert records(self.held) == records(self.source)
        check_sizes(self.held)


TestTransfer = TransferMachine.TestCase


@given(STEPS, STEPS, st.data())
def test_keys_with_lost_mutations_are_healed_by_blocks_of_their_own(
    steps: list[Step], later: list[Step], data: st.DataObject
) -> None:
    """Any changes of containers are lost; what is broken is asked for, until nothing is."""
    source, held = fragment(), fragment(0)
    for step in steps:
        perform(source, step)
    source.take()
    blocks = list(source.entries(50))
    incoming = Incoming(held)
    for step in later:
        perform(source, step)
    for key, record in source.take():
        if not (record[FLAGS_AT] & CHANGE and data.draw(st.booleans())):
            incoming.mutation(key, record)
    for block in blocks:
        incoming.block(block)
    broken = incoming.broken
    incoming.block((key, source.record_of(key)) for key in broken)
    assert not incoming.broken
    for key in broken:
        assert held.record_of(key) == source.record_of(key)


def arrange() -> tuple[Fragment, Incoming, Mutation]:
    """A source with a list, a receiver without, and the list's entry in a block."""
    source = fragment()
    change(source, b"k", ListValue, Change.PUSH_RIGHT, b"one")
    source.take()
    return source, Incoming(fragment(0)), (b"k", source.record_of(b"k"))


def test_late_block_does_not_bring_back_what_is_gone() -> None:
    source, incoming, entry = arrange()
    source.remove(b"k")
    incoming.mutation(*source.take()[0])
    incoming.block([entry])
    assert incoming.fragment.records == {}


def test_late_block_does_not_bring_back_what_was_emptied() -> None:
    source, incoming, entry = arrange()
    source.clear()
    incoming.mutation(*source.take()[0])
    incoming.block([entry])
    assert incoming.fragment.records == {}


def test_late_block_does_not_bring_back_a_lock() -> None:
    source, incoming, _ = arrange()
    source.lock(b"k", 1, b"session", 9)
    block = [(b"k", source.lock_record(b"k"))]
    source.lock(b"k", 0, b"", NEVER)
    for mutation in source.take():
        incoming.mutation(*mutation)
    incoming.block(block)
    assert incoming.fragment.locks == {}


def test_changes_wait_for_the_block_that_they_change() -> None:
    source, incoming, entry = arrange()
    for text in (b"two", b"three"):
        change(source, b"k", ListValue, Change.PUSH_RIGHT, text)
        incoming.mutation(*source.take()[0])
    assert list(incoming.broken) == [b"k"]
    incoming.block([entry])
    assert not incoming.broken
    assert incoming.fragment.record_of(b"k") == source.record_of(b"k")


def test_change_that_a_block_has_overtaken_is_in_it_already() -> None:
    source, incoming, _ = arrange()
    change(source, b"k", ListValue, Change.PUSH_RIGHT, b"two")
    incoming.block([(b"k", source.record_of(b"k"))])
    incoming.mutation(*source.take()[0])
    assert not incoming.broken
    assert incoming.fragment.record_of(b"k") == source.record_of(b"k")


def test_emptied_leaves_what_a_block_has_brought_ahead() -> None:
    source, incoming, entry = arrange()
    incoming.block([entry])
    source.clear()
    source.put(b"new", b"v")
    source.put(b"brief", b"v")
    source.remove(b"brief")
    *mutations, gone = source.take()
    incoming.block([(b"new", source.record_of(b"new")), gone])
    incoming.mutation(*mutations[0])
    assert records(incoming.fragment) == records(source)
    for mutation in (*mutations[1:], gone):
        incoming.mutation(*mutation)
    assert records(incoming.fragment) == records(source)


def test_what_was_held_before_is_not_compared() -> None:
    """Its versions are greater, and it loses nevertheless."""
    source, held = fragment(), stranger(fragment(0))
    source.put(b"a", b"right")
    incoming = Incoming(held)
    for block in source.entries(100):
        incoming.block(block)
    end(incoming, source, everything=False)
    assert records(held) == records(source)


def test_what_was_held_goes_when_everything_has_come_and_not_before() -> None:
    """Nothing good is given up before it is replaced: the source may end half way."""
    held = fragment(0)
    for key in (b"k", b"old", b"heard"):
        held.put(key, b"held")
    source, _, entry = arrange()
    incoming = Incoming(held)
    incoming.expect_everything()
    source.put(b"heard", b"since")
    incoming.mutation(*source.take()[0])
    incoming.block([entry])
    assert sorted(held.records) == [b"heard", b"k", b"old"]
    assert [key for key, _ in incoming.leave_unsent()] == [b"old"]
    assert sorted(held.records) == [b"heard", b"k"]
    assert incoming.leave_unsent() == ()


def test_differential_transfer_leaves_what_it_does_not_mention() -> None:
    held = fragment()
    for key in (b"same", b"gone", b"newer"):
        held.put(key, b"old")
    source = fragment()
    for key, record in held.take():
        source.apply(key, record)
    source.remove(b"gone")
    source.put(b"newer", b"v")
    difference = source.take()
    incoming = Incoming(held)
    incoming.block(difference)
    assert records(held) == records(source)


def test_waiting_changes_are_bounded() -> None:
    """Beyond the bound only the newest is kept: a whole record that has it heals the key."""
    source, incoming, entry = arrange()
    for _ in range(3):
        change(source, b"k", ListValue, Change.PUSH_RIGHT, bytes(WAITING_BYTES_MAX // 2))
        incoming.mutation(*source.take()[0])
    incoming.block([entry])
    assert list(incoming.broken) == [b"k"]
    incoming.block([(b"k", source.record_of(b"k"))])
    assert not incoming.broken
    assert incoming.fragment.record_of(b"k") == source.record_of(b"k")


@pytest.mark.parametrize("flags", [Kind.EMPTIED, Kind.LIST | CHANGE])
def test_blocks_have_whole_records_only(flags: int) -> None:
    _, incoming, _ = arrange()
    record = build(bytes(10), flags, NEVER, b"")
    assert kind_of(record) in {Kind.EMPTIED, Kind.LIST}
    with pytest.raises(MessageError, match="does not belong into a block"):
        incoming.block([(b"k", record)])


def test_what_was_heard_of_and_what_is_removed_after_a_comparison() -> None:
    held = fragment()
    held.put(b"mine", b"v")
    incoming = Incoming(held)
    assert not incoming.heard_after(b"mine", ABSENT)
    source, _, entry = arrange()
    incoming.block([entry])
    assert incoming.heard_after(b"k", ABSENT)
    assert not incoming.heard_after(b"k", source.version_of(b"k"))
    incoming.remove([b"mine"])
    assert list(held.records) == [b"k"]
    source.clear()
    incoming.mutation(*source.take()[0])
    assert incoming.heard_after(b"mine", ABSENT), "an EMPTIED speaks of all keys"


def test_what_was_heard_from_before_the_answer_is_asked_for() -> None:
    """It may have been undone by something that is never heard."""
    source, held = fragment(), fragment(0)
    for number in range(4):
        source.put(b"%d" % number, b"v")
    source.lock(b"4", 1, b"session", 99)
    mutations = source.take()
    incoming = Incoming(held)
    for key, record in (mutations[0], mutations[4]):
        incoming.mutation(key, record)
    answer, first = version_of(mutations[2][1]), version_of(mutations[0][1])
    incoming.settle(answer, first)
    assert list(incoming.wanted) == [
        b"0",
    ]
    incoming.mutation(*mutations[1])
    incoming.mutation(*mutations[3])
    assert list(incoming.wanted) == [b"0", b"1"]
    assert incoming.absent((), [b"0", b"1", b"3"]) == (b"0", b"1")
    incoming.block([mutations[0], mutations[1]])
    assert list(incoming.wanted) == []


@pytest.mark.parametrize("missed", [False, True])
def test_whoever_has_heard_everything_up_to_the_answer_has_no_doubts(*, missed: bool) -> None:
    source, incoming, _ = arrange()
    source.put(b"s", b"v")
    incoming.mutation(*source.take()[0])
    if missed:
        incoming.miss()
    now = source.version_of(b"s")
    incoming.settle(now, now)
    assert incoming.wanted == ((b"s",) if missed else ())
