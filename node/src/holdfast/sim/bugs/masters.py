"""Wrong ways to be a master: the mandate, the first work of a mastership, repair."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from holdfast.core import repair
from holdfast.core.assignment import assign
from holdfast.core.mastership import Mastership
from holdfast.core.messages import Report
from holdfast.core.rebalancing import Job, Rebalancing, candidates_of
from holdfast.core.settlement import Settlement
from holdfast.core.views import Member, View
from holdfast.ids import MemberId, Millis, PartitionId, Replicas
from holdfast.sim.bugs.fault import Bug, replaced

_job_for: Final = Rebalancing._job_for


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
    rebalancing._publish(view, rows, anew=True)


BUGS: Final = (
    Bug(
        "mandate-for-ever",
        "A master that nobody hears goes on: two of them act at the same instant.",
        partial(replaced, Mastership, "mandate", always_mandated),
        start=200,
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
        start=80,
    ),
    Bug(
        "master-asks-nobody",
        "A new master publishes its own table without looking at any other: commits are undone.",
        partial(replaced, Settlement, "_reports", hears_nobody),
        start=24,
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
)
