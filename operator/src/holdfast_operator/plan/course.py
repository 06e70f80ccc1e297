"""The order of things: what excludes what.

    refused spec ─► nothing is touched
    deleted, hibernate ─► PASSIVE, then no pods
    pods with an old template ─► a rolling restart; sizes wait for its end
    else ─► sizes and kinds of members, then the declared state

A restart begins when no size changes, so that both do not wait for each other; a size that is held
until somebody declares something else is not waited for.
"""

from __future__ import annotations

from holdfast.wire.api.words import ClusterState
from holdfast_operator.actions import Event
from holdfast_operator.model.status import Phase
from holdfast_operator.names import Role
from holdfast_operator.observed import Observed
from holdfast_operator.plan.decisions import Course, Hold, Restart, Sizes
from holdfast_operator.plan.resizing import sizes
from holdfast_operator.plan.restarting import restart
from holdfast_operator.plan.seeing import is_formed, is_up
from holdfast_operator.plan.stating import put_back, target_state


def course(o: Observed) -> Course:
    """What is to become of this cluster now."""
    if o.deleting or o.spec.hibernate:
        return _ending(o)
    asked = restart(o)
    begun = o.status.phase is Phase.UPDATING
    resizing = sizes(o, updating=False)
    held = resizing.hold is not None and resizing.hold.warning
    waits = resizing.moving and not begun and not held and is_formed(o)
    if asked.active and waits and not _replaces_the_broken(asked):
        hold = Hold("Resizing", "pods are replaced when the sizes are as declared")
        asked = Restart(hold=hold, outdated=asked.outdated)
    updating = asked.active and is_formed(o)
    chosen = sizes(o, updating=True) if updating and not _is_empty_set(o) else resizing
    stable = updating and asked.needs_stable
    target = target_state(o, ending=False, stable=stable)
    events = [*chosen.events, *put_back(o, target)]
    if asked.pod is not None:
        events.append(Event("Restarting", f"{asked.pod.name} gets the new template"))
    return Course(chosen, asked, target, events=tuple(events))


def _replaces_the_broken(asked: Restart) -> bool:
    return asked.pod is not None and asked.hold is not None and asked.hold.reason == "Replacing"


def _is_empty_set(o: Observed) -> bool:
    return o.replicas(Role.DATA) == 0


def _ending(o: Observed) -> Course:
    """Everything is written and nothing moves; then the pods go.

    A grid that does not answer can't be asked: of one that is to be deleted the pods go anyway, of
    one that is to sleep they stay, unless they have never been one grid."""
    target = target_state(o, ending=True, stable=False)
    have = o.replicas(Role.DATA), o.replicas(Role.LITE)
    passive = is_up(o) and o.grid is not None and o.grid.state is ClusterState.PASSIVE
    may_go = passive or not is_formed(o) or (o.deleting and o.grid is None) or have[0] == 0
    if may_go:
        return Course(Sizes(0, 0, moving=have != (0, 0)), Restart(), target, ending=True)
    hold = Hold("StateNotPassive", "the pods go when nothing can change any more")
    return Course(Sizes(*have, hold=hold, moving=True), Restart(), target, ending=True)
