"""After the faults: everything agrees, and nothing is left over.

`unsettled` gives a reason for everything that is not so yet; a cluster has converged when there is
none. It looks at everything, so it is asked now and then, not after each step.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.serving import Serving
from holdfast.core.states import ClusterState
from holdfast.core.table import Row
from holdfast.core.views import Drain, View
from holdfast.ids import MemberId
from holdfast.sim.checkers.requests import Requests
from holdfast.sim.checkers.watch import listed
from holdfast.sim.process import Process
from holdfast.sim.world import World


def unsettled(world: World, requests: Requests) -> Iterator[str]:
    """What is not at rest yet, and where."""
    processes = _expected(world)
    masters = [process for process in processes if process.node.is_master]
    if len(masters) != 1:
        yield f"{len(masters)} masters: {', '.join(process.name for process in masters)}"
        return
    master = masters[0]
    view = master.node.view
    assert view is not None, "a master has a view"
    yield from _view_unsettled(view, master, processes)
    for process in processes:
        yield from _process_unsettled(process, master)
    holders = {process.node.me.id: process for process in processes}
    for row in master.node.table.rows:
        yield from _row_unsettled(row, view, holders)
        yield from _unserved(world, row, holders)
    yield from requests.waiting(processes)


def _expected(world: World) -> list[Process]:
    """Everyone but those who don't speak the level that was raised while they were out, and those
    who know no address at which a member of the cluster is left."""
    views = [process.node.view for process in world.processes]
    newest = max((view for view in views if view is not None), key=lambda v: v.key, default=None)
    return [
        process
        for process in world.processes
        if newest is None or listed(process, newest) or _can_join(world, process, newest)
    ]


def _can_join(world: World, process: Process, newest: View) -> bool:
    view = process.node.view
    known = () if view is None else (*view.members, *view.departed)
    contacts = {*world.config.initial, *(member.address for member in known)}
    reachable = any(member.address in contacts for member in newest.members)
    return reachable and process.node.me.level_max >= newest.level


def _view_unsettled(view: View, master: Process, processes: list[Process]) -> Iterator[str]:
    if view.state is not ClusterState.ACTIVE or view.recovering:
        yield f"the state is {view.state}{', recovering' if view.recovering else ''}"
    if view.master != master.node.me.id:
        yield f"{master.name} leads, but its view names {view.master}"
    listed = {(member.id, member.incarnation) for member in view.members}
    here = {(process.node.me.id, process.node.me.incarnation) for process in processes}
    for stay in sorted(listed - here):
        yield f"{stay} is listed and doesn't run"
    for stay in sorted(here - listed):
        yield f"{stay} runs and is not listed"
    for member in view.members:
        if member.drain is not Drain.NONE:
            yield f"{member.id} is {member.drain}"


def _process_unsettled(process: Process, master: Process) -> Iterator[str]:
    node, view = process.node, process.node.view
    if view is None or view != master.node.view:
        yield f"{process.name} holds another view: {None if view is None else view.key}"
    elif node.table.rows != master.node.table.rows:
        yield f"{process.name} holds another table"
    elif node.table.stamp != master.node.table.stamp:
        yield f"{process.name} has another stamp for the same table"
    for migration in node.active_migrations():
        yield f"{process.name} takes part in migration {migration.id} of {migration.partition}"
    for partition in node.fragments:
        if node.me.id not in node.table.row(partition).replicas:
            yield f"{process.name} holds data of partition {partition} without an index"


def _row_unsettled(row: Row, view: View, here: dict[MemberId, Process]) -> Iterator[str]:
    data = [member.id for member in view.candidates]
    expected = min(len(row.replicas), len(data))
    if len(row.holders) != expected or any(member not in data for member in row.holders):
        yield f"{row} has not {expected} holders among {data}"
    elif None in row.replicas[:expected]:
        yield f"{row} has a gap"
    epochs = {
        holder: here[holder].node.fragments.get(row.partition)
        for holder in row.holders
        if holder in here
    }
    if len(set(epochs.values())) > 1 or None in epochs.values():
        yield f"partition {row.partition} is held differently: {epochs}"


def _unserved(world: World, row: Row, here: dict[MemberId, Process]) -> Iterator[str]:
    """An owner that knows its row and has its data, and still takes no writes."""
    owner = None if row.owner is None else here.get(row.owner)
    if owner is None:
        return
    serving = owner.node.serving(row.partition, owner.clock.read(world.now))
    if serving is not Serving.ALL:
        yield f"{owner.name} owns partition {row.partition} and serves {serving.name} of it"
