"""A grid without files whose processes are all gone: it is founded again, empty, and that is told.

Members without files can't know whether their grid exists elsewhere, so none of them founds one
once it was formed (`may_found`). If all of them were replaced, nobody ever would. So when every
data pod runs another container than the one in which its member was last seen, for longer than any
lease, and none of them is in a grid, the grid is lost: its identity is forgotten, and the pods,
which hold nothing, start once more, as founders. Where a member ran must be known: an operator that
only can't reach the members, or has forgotten them, founds nothing.

Who dies in the moment between the founding and the operator's word that nobody may found any more
founds another grid on its own. Its identity tells, and that the first one is lost is told as well.

With files nothing of this is needed: they say which grid it was.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from holdfast_operator.actions import Action, Delete, Event
from holdfast_operator.names import Role
from holdfast_operator.observed import Observed
from holdfast_operator.plan.seeing import is_formed

PATIENCE: Final = timedelta(seconds=30)
"""Far longer than any lease, and than the time that members need to find a grid that is there."""


def is_lost(o: Observed) -> bool:
    """Whether no process is left that was in the grid."""
    if o.spec.persistence.enabled or not is_formed(o) or (o.grid is not None and o.grid.members):
        return False
    seen = {each.pod: each.container for each in o.status.member_list if each.container}
    pods = o.pods_of(Role.DATA)
    replaced = [
        pod.started_at is not None
        and seen.get(pod.name, pod.container) != pod.container
        and o.now - pod.started_at > PATIENCE
        for pod in pods
    ]
    return bool(pods) and len(pods) == o.replicas(Role.DATA) and all(replaced)


def forgotten(o: Observed) -> Observed:
    """The same without the grid's identity: nothing was ever formed."""
    status = o.status.model_copy(update={"cluster_id": "", "member_list": []})
    return replace(o, status=status)


def is_another(o: Observed, cluster_id: str) -> bool:
    """Whether the grid that is there now is not the one that was."""
    return is_formed(o) and cluster_id not in ("", o.status.cluster_id)


def founded_again() -> Event:
    """They did so themselves."""
    text = "all members are gone, and founded another grid: it began anew, empty"
    return Event("GridLost", text, warning=True)


def founding_again(o: Observed) -> tuple[list[Action], Event]:
    """Every pod starts once more, as it reads who may found when it starts."""
    text = "all members are gone, and there are no files: the grid begins anew, empty"
    actions: list[Action] = [Delete("Pod", pod.name, pod.uid) for pod in o.pods]
    return actions, Event("GridLost", text, warning=True)
