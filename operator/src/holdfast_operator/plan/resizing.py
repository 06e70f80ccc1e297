"""How many pods there are to be, and how one goes: emptied first, in place.

Rules (`design/6`, "scale up", "scale down", "lite.promote patched")
--------------------------------------------------------------------
* **More** pods are never held back by ill health; only by a state that lets no new member in.
* **Fewer**: the highest ordinal is *demoted*: it gives its partitions away and stays a member. The
  set gets smaller when the member holds nothing. Until then everything can be taken back: a data
  pod that is wanted again is promoted where it runs. One pod after another.
* Nothing is demoted where data may not move, nor where the rest could not hold all copies.
* Lite pods below `promote` are promoted, the others demoted, where they run. A lite pod that has
  partitions keeps its pod until it has none.
* A member that does not answer can't be asked to leave. It goes from the grid by its lease or by
  its death; its pod is taken away when the grid is safe without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.wire.api.cluster import MemberModel
from holdfast.wire.api.words import Kind
from holdfast_operator.actions import Action, Demote, Event, Promote, StopAsking
from holdfast_operator.builders.settings import begun_with
from holdfast_operator.names import Role, pod_name
from holdfast_operator.observed import Observed
from holdfast_operator.plan.decisions import Hold, Sizes
from holdfast_operator.plan.seeing import (
    JOINABLE,
    MOVABLE,
    copies_promised,
    data_members,
    is_formed,
    is_up,
    members_of,
)


def sizes(o: Observed, *, updating: bool) -> Sizes:
    """Of both sets; `updating`: a rolling restart has the grid to itself."""
    have, want = o.replicas(Role.DATA), o.spec.members
    lite_have, lite_want = o.replicas(Role.LITE), o.spec.lite.members
    if not is_formed(o):
        want = max(want, begun_with(o))  # each of these has a share of what is restored
        return Sizes(want, lite_want, moving=have != want or lite_have != lite_want)
    if have == 0:
        return Sizes(_slept(o, Role.DATA, want), _slept(o, Role.LITE, lite_want), moving=True)
    if updating:
        return _updating(o, have, lite_have)
    data, hold, actions = have, None, list[Action]()
    if have < want:
        data, hold = _more(o, have, want)
    elif have > want:
        data, hold, actions = _fewer(o, Role.DATA, have)
    lite, lite_hold = lite_have, None
    if lite_have < lite_want:
        lite, lite_hold = _more(o, lite_have, lite_want)
    kinds, promotion = _kinds(o, keep=want, promote=o.spec.lite.promote)
    if lite_have > lite_want:
        lite = _without_empty(o, lite_have, lite_want)
    actions += [each for each in kinds if each not in actions]
    moving = have != want or lite_have != lite_want
    hold = hold or lite_hold
    return Sizes(data, lite, tuple(actions), _events(o, actions, data), hold, promotion, moving)


def _slept(o: Observed, role: Role, want: int) -> int:
    """After hibernation every claim's pod comes back first: its files may be the last copy."""
    ordinals = [
        claim.pod.rpartition("-")[2]
        for claim in o.claims
        if claim.pod == pod_name(o.name, role, _number(claim.pod)) and not claim.terminating
    ]
    return max((int(each) + 1 for each in ordinals), default=want)


def _number(pod: str) -> int:
    tail = pod.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def _updating(o: Observed, have: int, lite_have: int) -> Sizes:
    differs = have != o.spec.members or lite_have != o.spec.lite.members
    text = "the sizes change when the rolling restart is done"
    hold = Hold("Updating", text) if differs else None
    # a promoted lite pod that was replaced is a lite member again: without it no copy comes back
    kinds, promotion = _kinds(o, keep=have, promote=min(o.spec.lite.promote, lite_have))
    asks = [each for each in kinds if isinstance(each, Promote)]
    events = _events(o, asks, have)
    return Sizes(have, lite_have, tuple(asks), events, hold, promotion, moving=differs)


def _more(o: Observed, have: int, want: int) -> tuple[int, Hold | None]:
    if o.grid is None or o.grid.state in JOINABLE:
        return want, None
    text = f"state {o.grid.state.value} lets no new member in: declare ACTIVE or NO_MIGRATION"
    return have, Hold("StateForbidsJoin", text, warning=True)


def _fewer(o: Observed, role: Role, have: int) -> tuple[int, Hold | None, list[Action]]:
    """One pod fewer, once it is empty."""
    pod = pod_name(o.name, role, have - 1)
    members = members_of(o, role, have - 1)
    grid = o.grid
    if grid is None or not is_up(o):
        return have, Hold("GridSilent", "no pod is taken away while the grid does not answer"), []
    if not members and grid.safety.safe:
        return have - 1, None, []
    if not members:
        text = f"{pod} is no member any more; its copies are being made elsewhere"
        return have, Hold("NotSafe", text), []
    if all(_is_empty(member) for member in members):
        return have - 1, None, []
    if grid.state.value != "ACTIVE":
        text = f"{pod} can't hand over its data in state {grid.state.value}: declare ACTIVE"
        return have, Hold("StateMovesNoData", text, warning=True), []
    rest = len([m for m in data_members(o) if m not in members])
    if rest < copies_promised(o):
        text = (
            f"{rest} data members can't hold {copies_promised(o)} copies of each partition:"
            f" {pod} stays"
        )
        return have, Hold("CopiesWouldBeLost", text, warning=True), []
    silent = [member.name for member in members if member.ready is None]
    if silent:
        text = f"{', '.join(silent)} can't be asked to leave: no answer"
        return have, Hold("MemberSilent", text), []
    asks: list[Action] = [Demote(m.id) for m in members if m.kind is Kind.DATA]
    return have, _refused(o, asks) or Hold("Draining", f"{pod} gives its partitions away"), asks


def _is_empty(member: MemberModel) -> bool:
    held = member.owned_partitions + member.backup_partitions
    return member.kind is Kind.LITE and held == 0


def _without_empty(o: Observed, have: int, want: int) -> int:
    """Lite pods from above, as long as they hold nothing."""
    if o.grid is None:
        return have
    while have > want and all(_is_empty(m) for m in members_of(o, Role.LITE, have - 1)):
        have -= 1
    return have


def _kinds(o: Observed, *, keep: int, promote: int) -> tuple[list[Action], Hold | None]:
    """Members that are to be of the other kind. In a grid that forms or recovers nobody is asked.

    What is refused stays wanted: it is asked again with each look, and the reason is told."""
    if o.grid is None or not is_up(o):
        return [], None
    wrong: list[Action] = []
    for role, first, last in ((Role.DATA, 0, keep), (Role.LITE, 0, promote)):
        for ordinal in range(first, last):
            members = members_of(o, role, ordinal)
            wrong += [Promote(m.id) for m in members if m.kind is Kind.LITE and m.ready]
            wrong += [
                StopAsking(Demote(m.id).key)
                for m in members
                if m.drain.value == "demoting" and Demote(m.id).key in o.asked
            ]
    for ordinal in range(promote, o.replicas(Role.LITE)):
        members = members_of(o, Role.LITE, ordinal)
        wrong += [Demote(m.id) for m in members if m.kind is Kind.DATA and m.ready]
    if not wrong:
        return [], None
    if o.grid.state not in MOVABLE:
        text = f"state {o.grid.state.value} moves no data: declare ACTIVE or STABLE_CLUSTER"
        return [], Hold("StateMovesNoData", text, warning=True)
    return wrong, _refused(o, wrong) or Hold("Asked", f"{len(wrong)} members change their kind")


def _refused(o: Observed, asks: list[Action]) -> Hold | None:
    for ask in asks:
        if isinstance(ask, Promote | Demote) and ask.key in o.refusals:
            refusal = o.refusals[ask.key]
            return Hold(refusal.kind, refusal.message, warning=True)
    return None


def _events(o: Observed, actions: Sequence[Action], data: int) -> tuple[Event, ...]:
    events = []
    members = [] if o.grid is None else o.grid.members
    names = {member.id: member.name for member in members}
    for action in actions:
        if isinstance(action, Promote):
            events.append(Event("Promoting", f"{names[action.member]} becomes a data member"))
        if isinstance(action, Demote):
            events.append(Event("Demoting", f"{names[action.member]} becomes a lite member"))
    have = o.replicas(Role.DATA)
    if data != have:
        events.append(Event("Resizing", f"from {have} data pods to {data}"))
    return tuple(events)
