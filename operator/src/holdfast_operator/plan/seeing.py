"""Questions about what was observed that several rules ask."""

from __future__ import annotations

from holdfast.wire.api.cluster import MemberModel
from holdfast.wire.api.words import ClusterState, Kind
from holdfast_operator.builders.pods import template_mark
from holdfast_operator.model.cluster import State, Upgrade
from holdfast_operator.names import Role, member_names, pod_name
from holdfast_operator.observed import Declared, Observed, Pod

JOINABLE = (ClusterState.ACTIVE, ClusterState.NO_MIGRATION)
"""States that let in whoever is new (`holdfast.core.states`)."""
MOVABLE = (ClusterState.ACTIVE, ClusterState.STABLE_CLUSTER)
"""States in which members are promoted and demoted."""


def members_of(o: Observed, role: Role, ordinal: int) -> list[MemberModel]:
    """Members of one pod that the grid knows."""
    names = member_names(pod_name(o.name, role, ordinal), o.spec.processes_per_pod)
    found = (o.member(name) for name in names)
    return [member for member in found if member is not None]


def all_members_of(o: Observed, role: Role, ordinal: int) -> list[MemberModel] | None:
    """The same; None unless all of them are known."""
    found = members_of(o, role, ordinal)
    return found if len(found) == o.spec.processes_per_pod else None


def is_ready(o: Observed, role: Role, ordinal: int) -> bool:
    """Whether every member of a pod serves."""
    pod = o.pod(pod_name(o.name, role, ordinal))
    members = all_members_of(o, role, ordinal)
    return bool(pod and pod.ready and members and all(member.ready for member in members))


def ready_count(o: Observed, role: Role) -> int:
    """Pods of a role whose members all serve."""
    return sum(is_ready(o, role, pod.ordinal) for pod in o.pods_of(role))


def kept_as(backup: Declared) -> str:
    """The name of a Backup where it is kept: in the grid, and at its target."""
    return f"{backup.name}-{backup.uid[:8]}"


def is_formed(o: Observed) -> bool:
    """Whether the grid was complete once."""
    return bool(o.status.cluster_id)


def is_up(o: Observed) -> bool:
    """Whether the grid answers, and its master too."""
    return o.grid is not None and o.grid.master_answers and not o.grid.recovering


def is_coming_back(o: Observed) -> bool:
    """Whether the whole grid starts from its files: it says so, or nobody can say anything yet."""
    return o.grid.recovering if o.grid is not None else bool(o.loading)


def data_members(o: Observed) -> list[MemberModel]:
    """Members that hold partitions, and are to go on doing so."""
    members = [] if o.grid is None else o.grid.members
    return [m for m in members if m.kind is Kind.DATA and m.drain.value == "none"]


def copies_promised(o: Observed) -> int:
    """The owner's copy and the most backups that any name asks for, by the grid's own word."""
    assert o.grid is not None
    return 1 + o.grid.partitions.backups_promised


def outdated_pods(o: Observed) -> list[Pod]:
    """Pods of another template than the declared one."""
    marks = {role: template_mark(o, role) for role in Role}
    return [pod for pod in o.pods if not pod.terminating and pod.template != marks[pod.role]]


def restarts_by_itself(o: Observed) -> bool:
    """Whether the operator replaces outdated pods."""
    return o.spec.upgrade_strategy is not Upgrade.ON_DELETE


def moves_through_stable(o: Observed) -> bool:
    """Whether a rolling restart takes the grid to STABLE_CLUSTER: there a member that comes back
    gets what it had, and nothing else moves. FROZEN and PASSIVE wait for it anyway."""
    stable = o.spec.upgrade_strategy is Upgrade.ROLLING_STABLE
    return stable and o.spec.state in (State.ACTIVE, State.NO_MIGRATION)


def is_moving(o: Observed) -> bool:
    """Whether the grid plans or moves, by itself or because it was asked."""
    return o.migrations is not None and o.migrations.activity != "idle"
