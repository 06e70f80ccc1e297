"""Replacing pods that have an old template, without moving data.

Rules (`design/6`, "rolling restart / image change")
----------------------------------------------------
* The grid is taken to STABLE_CLUSTER first, where that is the strategy: a member that comes back
  reclaims its partitions from its own files, and nobody re-replicates meanwhile.
* One pod at a time: the next goes when all are back, and every copy is in sync. Lite pods first,
  the member that is master last, so that mastership changes hands once.
* A pod whose container does not run holds nothing that works: it is replaced at once. So a template
  that could not start is repaired by the next one.
* It is over when no pod is outdated, all serve, and the grid is safe; then the declared state comes
  back. Until then `status.phase` says Updating: who takes over goes on.
"""

from __future__ import annotations

from holdfast.wire.api.words import ClusterState
from holdfast_operator.model.cluster import State
from holdfast_operator.model.status import Phase
from holdfast_operator.names import Role
from holdfast_operator.observed import Observed, Pod
from holdfast_operator.plan.decisions import Hold, Restart
from holdfast_operator.plan.seeing import (
    all_members_of,
    copies_promised,
    data_members,
    is_formed,
    is_ready,
    is_up,
    members_of,
    moves_through_stable,
    outdated_pods,
    restarts_by_itself,
)


def restart(o: Observed) -> Restart:
    """Whether pods are being replaced, and which one goes now."""
    outdated = outdated_pods(o)
    names = tuple(pod.name for pod in outdated)
    if outdated and not restarts_by_itself(o):
        text = f"{', '.join(names)} have an old template: delete them when it suits"
        return Restart(hold=Hold("OnDelete", text), outdated=names)
    dead = next((pod for pod in outdated if _is_broken(pod)), None)
    if not is_formed(o):
        return Restart(active=bool(outdated), pod=dead, outdated=names)
    if not outdated and not _is_unfinished(o):
        return Restart()
    if dead is not None:
        return Restart(True, dead, Hold("Replacing", f"{dead.name} does not run"), False, names)
    stable = moves_through_stable(o)
    hold = _not_yet(o, stable=stable)
    pod = None if hold is not None else _next(o, outdated)
    return Restart(True, pod, hold, stable, names)


def _is_unfinished(o: Observed) -> bool:
    """The last pod was replaced, and is not whole yet."""
    if o.status.phase is not Phase.UPDATING:
        return False
    return not (is_up(o) and _all_serve(o) and is_settled(o))


def _is_broken(pod: Pod) -> bool:
    return not pod.running and bool(pod.waiting) and pod.waiting != "ContainerCreating"


def _not_yet(o: Observed, *, stable: bool) -> Hold | None:
    if not is_up(o) or o.grid is None:
        return Hold("GridSilent", "no pod is replaced while the grid does not answer")
    if not _all_serve(o):
        return Hold("MembersNotReady", "the next pod is replaced when all members serve")
    if stable and o.grid.state is not ClusterState.STABLE_CLUSTER:
        return Hold("StateNotStable", "the next pod is replaced in STABLE_CLUSTER")
    if not stable and o.spec.state in (State.ACTIVE, State.NO_MIGRATION, State.STABLE_CLUSTER):
        moves = o.grid.state is ClusterState.ACTIVE
        if not moves and not o.spec.persistence.enabled:
            text = "members without files can be replaced in ACTIVE alone"
            return Hold("StateMovesNoData", text, warning=True)
    if not is_settled(o):
        return Hold("NotSafe", "; ".join(o.grid.safety.reasons) or "copies are not in sync")
    return None


def is_settled(o: Observed) -> bool:
    """Whether one holder may go: every copy is in sync. Where there are fewer members than copies
    that can never be; there the files are the other copy."""
    grid = o.grid
    assert grid is not None
    if grid.safety.safe:
        return True
    too_few = len(data_members(o)) < copies_promised(o)
    moving = o.migrations is not None and o.migrations.remaining > 0
    still = grid.safety.unsynced_copies == 0 and not moving
    return too_few and still and o.spec.persistence.enabled


def _all_serve(o: Observed) -> bool:
    """One that is going does not serve."""
    return all(is_ready(o, role, ordinal) for role in Role for ordinal in range(o.replicas(role)))


def _next(o: Observed, outdated: list[Pod]) -> Pod | None:
    def last_is_master(pod: Pod) -> tuple[bool, bool, int]:
        members = all_members_of(o, pod.role, pod.ordinal) or members_of(o, pod.role, pod.ordinal)
        return (any(m.master for m in members), pod.role is Role.DATA, -pod.ordinal)

    return min(outdated, key=last_is_master, default=None)
