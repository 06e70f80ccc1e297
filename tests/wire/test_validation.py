"""Ranges and shapes: what has the right types and still can't be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.data_messages import BackupFrame, FragmentStand, ReplicaCheck, Stand
from holdfast.core.messages import (
    Fragment,
    FragmentPush,
    JoinRequest,
    Message,
    Migration,
    MigrationId,
    MigrationRequest,
    NewView,
    Origin,
    Publication,
    Report,
    Versions,
)
from holdfast.core.migrations import MigrationType, Move
from holdfast.core.states import ClusterState
from holdfast.core.table import Row
from holdfast.core.views import Kind, Member, View
from holdfast.errors import MessageError
from holdfast.ids import Address, MemberId, PartitionId, Replicas, Term, Version
from holdfast.wire.codec import decode, encode
from holdfast.wire.validation import check_of, validate

A, B, C = MemberId("a"), MemberId("b"), MemberId("c")
ORIGIN = Origin(A, 1, Address("a:1"))
MEMBER = Member(A, 1, "a", Address("a:1"), "zone", Kind.DATA, persistent=False, level_max=3)
VIEW = View(Term(1), Version(1), A, "cluster", 3, ClusterState.ACTIVE, (MEMBER,))
MOVE = Move(MigrationType.MOVE, A, 0, -1, B, -1, 0)
MIGRATION = Migration(
    MigrationId(Term(1), 1), PartitionId(0), Version(1), (MOVE,), (A, None), (B, None)
)
SHORT = FragmentStand(b"name", Stand(1, 1, (1,)), ())
REPORT = Report(Term(1), 0, (), (), (), (), None)


def publication(replicas: Replicas, *, partition: int = 0, version: int = 1) -> Publication:
    row = Row(PartitionId(partition), Version(version), replicas)
    return Publication(Term(1), 1, (row,), ())


GOOD: list[Message] = [
    publication((A, None, B)),
    publication((None,), version=-1),
    NewView(VIEW),
    MigrationRequest(MIGRATION, ()),
    Versions(Term(1), (Version(-1), Version(2**31 - 1))),
    replace(REPORT, stamp=-(2**63)),
]

BAD: list[tuple[Message, str]] = [
    (publication(()), "1 to 7 indexes, not 0"),
    (publication((None,) * 8), "1 to 7 indexes, not 8"),
    (
        BackupFrame(1, False, (), (ReplicaCheck(PartitionId(0), 1, (SHORT,)),), MemberId("b"), 1),
        "a vector has 6 entries, not 1",
    ),
    (publication((A, A)), "twice"),
    (publication((A,), partition=-1), "Row.partition is -1"),
    (publication((A,), partition=16_384), "Row.partition is 16384"),
    (publication((A,), version=-2), "Row.version is -2"),
    (publication((A,), version=2**31), "Row.version is 2147483648"),
    (Versions(Term(1), (Version(-2),)), "-2 is not in"),
    (NewView(replace(VIEW, members=(MEMBER, MEMBER))), "stands twice in view"),
    (NewView(replace(VIEW, state=ClusterState.IN_TRANSITION)), "never stored"),
    (NewView(replace(VIEW, term=Term(-1))), "View.term"),
    (NewView(replace(VIEW, stable=(0, -1))), "-1 is not in"),
    (NewView(VIEW.with_changed(replace(MEMBER, incarnation=-1))), "Member.incarnation"),
    (JoinRequest(MEMBER, "x", "", 1, 0, 1), "partition_count"),
    (JoinRequest(MEMBER, "x", "", 1, 1, 8), "replica_count"),
    (FragmentPush(MIGRATION, (), Fragment(-1, 0)), "Fragment.epoch"),
    (MigrationRequest(replace(MIGRATION, after=(A, B)), ()), "leads to"),
    (MigrationRequest(replace(MIGRATION, after=(B,)), ()), "leads to"),
    (MigrationRequest(replace(MIGRATION, before=(C, None)), ()), "a is not at index 0"),
    (
        MigrationRequest(replace(MIGRATION, moves=(replace(MOVE, destination_new=2),)), ()),
        "leaves the row",
    ),
    (
        MigrationRequest(replace(MIGRATION, moves=(replace(MOVE, destination_new=-2),)), ()),
        "Move.destination_new is -2",
    ),
]


@pytest.mark.parametrize("message", GOOD)
def test_what_can_be_passes(message: Message) -> None:
    assert decode(encode(ORIGIN, message)) == (ORIGIN, message)


@pytest.mark.parametrize(("message", "reason"), BAD)
def test_what_can_not_be_is_refused(message: Message, reason: str) -> None:
    """The encoder trusts its own core, so a broken one can be played here."""
    with pytest.raises(MessageError, match=reason):
        decode(encode(ORIGIN, message))


def test_a_type_that_says_enough_has_no_checks() -> None:
    assert check_of(str) is None
    assert check_of(str | None) is None
    assert check_of(tuple[str, ...]) is None
    validate(MEMBER)
