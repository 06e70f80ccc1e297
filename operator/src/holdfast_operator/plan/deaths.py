"""Confirming deaths: the operator as an arbiter (`design/3` §1).

What is confirmed is never awaited again, so it has to be a fact. A fact is that *this* stay of a
member ran in *that* container, and that its kubelet says that this very container ended:

* A member says itself who it is and when its process started (`/v1/self`). It was asked at the
  address of its pod, while the pod's container was known by its id.
* Its process started before that container ended, both by the clock of their one node. So a member
  that answered from the next container, before the kubelet's word of the last one's end had reached
  us, is not taken for the dead one.

A pod that was deleted by force, a node that does not answer, a container that the kubelet can't
find (`ContainerStatusUnknown`) prove nothing: the process may live on. There the lease decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast_operator.actions import ConfirmDead, Event
from holdfast_operator.model.status import MemberStatus
from holdfast_operator.observed import Ended, Observed


def known_stays(o: Observed) -> dict[str, MemberStatus]:
    """What the status remembers of each member, by its name."""
    return {each.name: each for each in o.status.member_list}


def deaths(o: Observed) -> list[tuple[ConfirmDead, Event]]:
    """Stays that are over, and that the grid still counts."""
    return list(_deaths(o))


def _deaths(o: Observed) -> Iterator[tuple[ConfirmDead, Event]]:
    if o.grid is None:
        return
    remembered = known_stays(o)
    fresh = {stay.name: stay for stay in o.stays}
    for member in o.grid.members:
        stay = fresh.get(member.name) or remembered.get(member.name)
        if stay is None or stay.started_at is None:
            continue
        if (stay.id, stay.incarnation) != (member.id, member.incarnation) or member.ready:
            continue
        end = _end_of(o, stay.pod, stay.container)
        if end is None or end.finished_at < stay.started_at:
            continue
        text = f"the container of {member.name} ended ({end.reason or end.exit_code})"
        yield (
            ConfirmDead(member.id, member.incarnation, member.name),
            Event("DeathConfirmed", text, warning=True),
        )


def _end_of(o: Observed, pod_name: str, container: str) -> Ended | None:
    pod = o.pod(pod_name)
    if pod is None or not container:
        return None
    return next((end for end in pod.ended if end.container == container), None)
