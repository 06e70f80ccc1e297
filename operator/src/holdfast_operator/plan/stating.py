"""Which state the grid is to have now, and asking for it.

Rules (`design/6`, "`state` patched")
-------------------------------------
* Until the grid was complete once, it is left as it was founded: a state that lets nobody in would
  keep half of it out.
* A rolling restart and an end have a state of their own; else it is the declared one.
* It is asked for until it holds. Migrations delay it, and that is told (`pendingState`); a refusal
  is told too, and asked again.
* Whoever else changed it: what is declared is put back, with an event.
"""

from __future__ import annotations

from holdfast.wire.api.words import ClusterState
from holdfast_operator.actions import Action, ChangeState, Event
from holdfast_operator.model.cluster import State
from holdfast_operator.model.status import PendingState, Phase
from holdfast_operator.observed import Observed
from holdfast_operator.plan.seeing import is_formed, is_up


def target_state(o: Observed, *, ending: bool, stable: bool) -> State | None:
    """The state to be in now; None while there is nothing to be asked."""
    if not is_formed(o):
        return None
    if ending:
        return State.PASSIVE
    return State.STABLE_CLUSTER if stable else o.spec.state


def asks(o: Observed, target: State | None) -> list[Action]:
    """Ask for it, unless it holds."""
    if target is None or o.grid is None or not is_up(o) or o.grid.state.value == target.value:
        return []
    return [ChangeState(target)]


def put_back(o: Observed, target: State | None) -> list[Event]:
    """Somebody else changed what we had applied."""
    grid = o.grid
    if grid is None or target is None or target is not o.spec.state:
        return []
    applied = o.status.state_generation == o.generation and o.status.state == target.value
    strange = grid.state.value != target.value and grid.state is not ClusterState.IN_TRANSITION
    if not applied or not strange or o.status.phase is Phase.UPDATING:
        return []
    text = f"the state was changed to {grid.state.value} elsewhere; {target.value} is put back"
    return [Event("StatePutBack", text, warning=True)]


def pending(o: Observed, target: State | None) -> PendingState | None:
    """What is waited for, since when, and why."""
    wanted = target or o.spec.state
    grid = o.grid
    if grid is not None and is_formed(o) and grid.state.value == wanted.value:
        return None
    before = o.status.pending_state
    since = before.since if before is not None and before.target == wanted.value else o.now
    reason, message = _why(o)
    return PendingState(target=wanted.value, since=since, reason=reason, message=message)


def _why(o: Observed) -> tuple[str, str]:
    grid = o.grid
    if grid is None:
        return "GridSilent", "the grid does not answer"
    if not is_formed(o):
        return "Forming", "the grid is not complete yet"
    if grid.recovering:
        return "Recovering", "the grid comes back from its files"
    refusal = o.refusals.get(ChangeState(o.spec.state).key)
    text = grid.pending.reason if grid.pending is not None else ""
    text = text or (refusal.message if refusal is not None else "")
    if "migration" in text or (o.migrations is not None and o.migrations.running):
        return "MigrationsRunning", text or "migrations are running"
    if grid.pending is None and refusal is not None:
        return refusal.kind, text
    return "Asked", text or "the grid was asked for it"
