"""Claims: they grow with the spec, and go only when their pod is gone for good.

A claim is a member's files. It is deleted after its pod, when the set does not want that pod any
more and the grid is safe without it; or with the Cluster, if `persistence.reclaim` says so.
"""

from __future__ import annotations

from holdfast_operator.actions import Action, Delete, Event, Grow
from holdfast_operator.model.cluster import Reclaim
from holdfast_operator.names import Role, member_names, ordinal_of, pod_name
from holdfast_operator.observed import Claim, Observed
from holdfast_operator.plan.seeing import is_formed, is_up
from holdfast_operator.quantities import number


def growing(o: Observed) -> list[Claim]:
    """Claims that are smaller than declared, or not grown yet."""
    wanted = number(o.spec.persistence.size) or 0
    return [c for c in o.claims if c.capacity and (number(c.capacity) or wanted) < wanted]


def grow(o: Observed) -> list[Action]:
    """Ask for more where less is asked for."""
    size = o.spec.persistence.size
    wanted = number(size) or 0
    return [
        Grow(claim.name, size)
        for claim in o.claims
        if not claim.terminating and (number(claim.requested) or wanted) < wanted
    ]


def surplus(o: Observed) -> list[Claim]:
    """Claims of pods that are not declared; of a grid that sleeps, or forms, none is."""
    declared = {Role.DATA: o.spec.members, Role.LITE: o.spec.lite.members}
    asleep = o.spec.hibernate or not o.replicas(Role.DATA)
    return [
        claim
        for claim in o.claims
        for role, count in declared.items()
        if not asleep
        and claim.pod == pod_name(o.name, role, ordinal_of(claim.pod))
        and ordinal_of(claim.pod) >= count
    ]


def left_over(o: Observed, sizes: dict[Role, int]) -> tuple[list[Action], list[Event]]:
    """Claims of pods that were taken away."""
    if not is_formed(o) or not is_up(o) or o.grid is None or not o.grid.safety.safe:
        return [], []
    actions: list[Action] = []
    events = []
    for claim in o.claims:
        if claim.terminating or not _is_left(o, claim, sizes):
            continue
        actions.append(Delete("PersistentVolumeClaim", claim.name, claim.uid))
        events.append(Event("ClaimDeleted", f"{claim.name}: its member left in good order"))
    return actions, events


def _is_left(o: Observed, claim: Claim, sizes: dict[Role, int]) -> bool:
    ordinal = ordinal_of(claim.pod)
    role = next((r for r in Role if claim.pod == pod_name(o.name, r, ordinal)), None)
    asleep = not o.replicas(Role.DATA)
    if role is None or asleep or ordinal < max(o.replicas(role), sizes[role]):
        return False
    names = member_names(claim.pod, o.spec.processes_per_pod)
    return o.pod(claim.pod) is None and not any(o.member(name) for name in names)


def of_deleted(o: Observed) -> list[Action]:
    """What goes with the Cluster."""
    if o.spec.persistence.reclaim is not Reclaim.DELETE:
        return []
    return [
        Delete("PersistentVolumeClaim", claim.name, claim.uid)
        for claim in o.claims
        if not claim.terminating
    ]
