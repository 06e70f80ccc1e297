"""Wrong ways to be a master: the mandate, the first work of a mastership, repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from holdfast.core import rebalancing, repair
from holdfast.core.assignment import assign
from holdfast.core.mastership import Mastership
from holdfast.core.messages import PublicationAck, Report, Request
from holdfast.core.publication import Publisher
from holdfast.core.rebalancing import Job, Rebalancing, candidates_of
from holdfast.core.settlement import Settlement
from holdfast.core.table import Row
from holdfast.core.transition import Transition
from holdfast.core.versioning import raised
from holdfast.core.views import Member, View
from holdfast.ids import MemberId, Millis, PartitionId, Replicas
from holdfast.sim.bugs import mixes
from holdfast.sim.bugs.fault import Bug, replaced

_job_for: Final = Rebalancing._job_for
_plan_if_wanted: Final = Rebalancing._plan_if_wanted
_repair_table: Final = repair.repair_table
_lock: Final = Transition._lock
_on_ack: Final = Publisher.on_ack


def always_mandated(mastership: Mastership, _: View) -> Millis:
    """In the place of `Mastership.mandate`: no voter needs to be heard for it."""
    return Millis(mastership.context.now + mastership.context.config.lease_ms)


def over_after_two_heartbeats(mastership: Mastership, member: Member) -> bool:
    """In the place of `Mastership._is_over`: silence is taken for death."""
    now = mastership.context.now
    patience = 2 * mastership.context.config.heartbeat_ms
    return now >= mastership.echoed.get(member.id, now) + patience


def committed_at_once(mastership: Mastership) -> bool:
    """In the place of `Mastership.committed`: the next change waits for nobody."""
    return mastership.may_act()


def hears_nobody(_: Settlement) -> Iterator[tuple[MemberId, Report]]:
    """In the place of `Settlement._reports`: the own table is the newest."""
    yield from ()


def plans_in_any_state(rebalancing: Rebalancing, view: View) -> Job | None:
    """In the place of `Rebalancing._job_for`: it does not ask what the state allows."""
    if rebalancing._all_lost or not view.candidates:
        return _job_for(rebalancing, view)
    rows = [row.replicas for row in rebalancing.context.table.rows]
    count = rebalancing.context.config.replica_count
    return rebalancing._towards(assign(candidates_of(view), rows, count))


def no_heir(replicas: Replicas, present: repair.Judge) -> Replicas:
    """In the place of `repaired`: the index of a dead owner is vacant, and stays so."""
    return tuple(member if member is not None and present(member) else None for member in replicas)


def gives_silently(
    rebalancing: Rebalancing,
    view: View,
    rows: dict[PartitionId, Replicas],
    lost: dict[PartitionId, int],
) -> None:
    """In the place of `Rebalancing._give`: nobody is told of a loss."""
    del lost
    table = rebalancing.context.table
    rebalancing.publisher.change(raised(table, view.level, view.term, rows, anew=True))


def applies_unchecked(transition: Transition, view: View, request: Request) -> None:
    """In the place of `Transition._lock`: who is locked is looked at, what changed since is not."""
    if all(transition._locked.get(m.id) == m.incarnation for m in view.members):
        transition._commit(view, request)
    else:
        _lock(transition, view, request)


def plans_before_all_know(rebalancing: Rebalancing, view: View) -> None:
    """In the place of `Rebalancing._plan_if_wanted`: who has confirmed the view is not asked."""
    with replaced(Mastership, "known_to_all", lambda _: True):
        _plan_if_wanted(rebalancing, view)


def awaits_nobody(
    rows: Sequence[Row], present: repair.Judge, _: repair.Judge, warm: int
) -> repair.Repair:
    """In the place of `repair_table`: who left is gone for good."""
    return _repair_table(rows, present, lambda _: False, warm)


def forgets_at_the_first_word(
    publisher: Publisher, member: MemberId, message: PublicationAck
) -> bool:
    """In the place of `Publisher.on_ack`: one member knows how a migration ended, hence all do."""
    subscriber = publisher._subscribers.get(member)
    if subscriber is not None:
        for partition, _ in subscriber.sent.get(message.sequence, ()):
            publisher.completed.pop(partition, None)
    return _on_ack(publisher, member, message)


def waits_for_nobody(*_: object) -> None:
    """In the place of `Publisher._hold`: nobody need know a row before its owner goes by it."""


BUGS: Final = (
    Bug(
        "mandate-for-ever",
        "A master that nobody hears goes on: two of them act at the same instant.",
        partial(replaced, Mastership, "mandate", always_mandated),
        mix=mixes.falling_apart,
    ),
    Bug(
        "silent-is-dead",
        "A silent member is replaced before its lease is over: both serve.",
        partial(replaced, Mastership, "_is_over", over_after_two_heartbeats),
        start=3,
    ),
    Bug(
        "changes-overlap",
        "The view is changed before the last change is committed: the table is repaired while"
        " members serve that do not know of it.",
        partial(replaced, Mastership, "committed", committed_at_once),
        start=220,
    ),
    Bug(
        "master-asks-nobody",
        "A new master publishes its own table without looking at any other: commits are undone.",
        partial(replaced, Settlement, "_reports", hears_nobody),
        start=29,
    ),
    Bug(
        "moves-unasked",
        "Migrations are planned in a state that allows none.",
        partial(replaced, Rebalancing, "_job_for", plans_in_any_state),
        start=5,
    ),
    Bug(
        "no-heir",
        "Nobody takes the place of an owner that left, though its backups live.",
        partial(replaced, repair, "repaired", no_heir),
        start=3,
    ),
    Bug(
        "loss-not-told",
        "A lost partition is given away without a word: it begins anew, and nobody knows.",
        partial(replaced, Rebalancing, "_give", gives_silently),
        start=4,
    ),
    Bug(
        "change-not-checked-again",
        "A state is changed although members left, or the table moved on, after it was prepared.",
        partial(replaced, Transition, "_lock", applies_unchecked),
        start=261,
    ),
    Bug(
        "kind-not-known",
        "A plan uses members of a view that not everyone has confirmed.",
        partial(replaced, Rebalancing, "_plan_if_wanted", plans_before_all_know),
        mix=mixes.moving,
    ),
    Bug(
        "awaited-given-away",
        "A partition is called lost while a member that is awaited has its data.",
        partial(replaced, rebalancing, "repair_table", awaits_nobody),
        start=23,
    ),
    Bug(
        "end-forgotten-early",
        "The end of a migration is forgotten when the first member knows of it.",
        partial(replaced, Publisher, "on_ack", forgets_at_the_first_word),
    ),
    Bug(
        "owner-hears-with-all",
        "An owner goes on without a backup that does not know it is none any more, and may lead.",
        partial(replaced, Publisher, "_hold", waits_for_nobody),
        start=63,
        mix=mixes.coming_back,
    ),
)
