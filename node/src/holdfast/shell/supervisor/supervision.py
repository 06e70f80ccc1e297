"""What a supervisor decides about the processes it runs. Pure: events in, effects out.

Rules (`design/2` "Cores, processes, pods"; `design/3` §1 for the arbiter)
--------------------------------------------------------------------------
* A process that dies is started again in its place: at once, then with doubling waits while it
  keeps dying. One that can't work with its settings is not, and neither is one that left by
  itself.
* **The nearest arbiter.** An exit that the supervisor has seen is a fact. If the process had said
  who it was, every member that is known and alive is told that this stay is over: the other
  children, and whoever stood in the last view that any of them reported.
* Asked to end, it asks every process to leave its cluster, and waits for all of them. Asked once
  more, or after `leave_ms`, it kills. Its exit code is the first of its children's that is not 0.
* **Founding** (`docs/adr/0004`). A process without files can't know whether its cluster was
  founded before; here it is known. Once any child has served, a new process may found only if
  every member of the last view has died before the eyes of this supervisor.

States
------
    RESTING ─spawn─► STARTING ─introduced─► JOINING ◄─waiting, ready─► SERVING
       ▲                 │                     │                          │
       └──── died ───────┴──────────┬──────────┴──────────────────────────┤
                                    │ asked to end                        │ left, refused
                                    ▼                                     ▼
                                 LEAVING ────────── any end ───────────► OVER

What can go wrong
-----------------
* *All settings are wrong.* Every child is OVER at once, and the supervisor ends with their code. A
  single one that is refused leaves the others alone: they serve.
* *A process dies before it says who it is.* Nobody can have let it in; there is nothing to tell.
* *The last report is old when a process dies.* Members that came since are not told by us; their
  own master waits for the lease, as it would without an arbiter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from signal import SIGKILL, SIGTERM
from typing import Final

from holdfast.core.transitions import TransitionTable
from holdfast.ids import Address, MemberId, Millis
from holdfast.shell.supervisor.happenings import (
    Babbled,
    Begun,
    Confirm,
    Effect,
    Event,
    Exited,
    Finish,
    KillAsked,
    NotSpawned,
    Reported,
    Signal,
    Spawn,
    StopAsked,
    Tell,
    What,
    Woke,
)
from holdfast.shell.supervisor.policy import End, Policy, describe, end_of, exit_code
from holdfast.shell.supervisor.reports import (
    Acquaintance,
    Introduced,
    Members,
    Ready,
    Waiting,
)

NEVER: Final = Millis(-1)


class State(Enum):
    """Where a child is."""

    RESTING = "resting"
    """No process; one is started when its time has come."""
    STARTING = "starting"
    """A process that has not said who it is."""
    JOINING = "joining"
    SERVING = "serving"
    LEAVING = "leaving"
    OVER = "over"
    """No process, and none will be started."""


class Trigger(Enum):
    """What moves a child."""

    SPAWN = "spawn"
    INTRODUCE = "introduce"
    WAIT = "wait"
    SERVE = "serve"
    LEAVE = "leave"
    REST = "rest"
    END = "end"


RUNNING: Final = (State.STARTING, State.JOINING, State.SERVING, State.LEAVING)

TABLE: Final = TransitionTable(
    "child",
    {
        (State.RESTING, Trigger.SPAWN): State.STARTING,
        (State.RESTING, Trigger.END): State.OVER,
        (State.STARTING, Trigger.INTRODUCE): State.JOINING,
        (State.JOINING, Trigger.WAIT): State.JOINING,
        (State.JOINING, Trigger.SERVE): State.SERVING,
        (State.SERVING, Trigger.WAIT): State.JOINING,
        (State.SERVING, Trigger.SERVE): State.SERVING,
        (State.LEAVING, Trigger.INTRODUCE): State.LEAVING,
        (State.LEAVING, Trigger.WAIT): State.LEAVING,
        (State.LEAVING, Trigger.SERVE): State.LEAVING,
        **{(state, Trigger.LEAVE): State.LEAVING for state in RUNNING},
        **{(state, Trigger.END): State.OVER for state in RUNNING},
        **{(state, Trigger.REST): State.RESTING for state in RUNNING if state is not State.LEAVING},
    },
)


class Child:
    """One place for member processes, and what is known of the one that is in it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.state = State.RESTING
        self.due = Millis(0)
        """When a resting child is started."""
        self.began = NEVER
        self.failures = 0
        self.excused = False
        """Its death was asked for: it is no failure."""
        self.came_up = False
        """Whether any process in this place has ever said who it was."""
        self.who: Introduced | None = None
        """The stay of the process that runs."""
        self.acquaintances: tuple[Acquaintance, ...] = ()
        """The last view that a process in this place reported."""
        self.code = 0

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self.state in RUNNING

    def move(self, trigger: Trigger) -> None:
        """Take the transition, or raise."""
        self.state = TABLE.next(self.state, trigger)

    def can(self, trigger: Trigger) -> bool:
        """Whether the table has it."""
        return (self.state, trigger) in TABLE.table


class Supervision:
    """All children of one supervisor. `step` is its only door."""

    def __init__(self, count: int, policy: Policy) -> None:
        self.policy = policy
        self.children = tuple(Child(index) for index in range(count))
        self.stopping = False
        self.founded = False
        """Whether a child has ever served: then there is, or was, a cluster."""
        self.deadline: Millis | None = None
        """When processes that were asked to leave are killed."""
        self._own: set[MemberId] = set()
        """Ids of all stays that these children have had."""
        self._finished = False
        self._now = Millis(0)
        self._handlers: Mapping[type[Event], Callable[..., Iterator[Effect]]] = {
            Begun: self._on_woke,
            Woke: self._on_woke,
            Reported: self._on_reported,
            Babbled: self._on_babbled,
            Exited: self._on_exited,
            NotSpawned: self._on_not_spawned,
            StopAsked: self._on_stop_asked,
            KillAsked: self._on_kill_asked,
        }

    def step(self, event: Event, now: Millis) -> list[Effect]:
        """Take one event; the effects are to be carried out in order."""
        self._now = now
        effects = list(self._handlers[type(event)](event))
        if not self._finished and all(child.state is State.OVER for child in self.children):
            self._finished = True
            effects.append(Finish(self._code()))
        return effects

    @property
    def wake_at(self) -> Millis | None:
        """When it wants to be woken, if nothing happens before."""
        times = [child.due for child in self.children if child.state is State.RESTING]
        if self.deadline is not None:
            times.append(self.deadline)
        return min(times, default=None)

    # What happens ---------------------------------------------------------------------------------

    def _on_woke(self, _: Begun | Woke) -> Iterator[Effect]:
        for child in self.children:
            if child.state is State.RESTING and child.due <= self._now:
                yield self._spawn(child)
        if self.deadline is not None and self.deadline <= self._now:
            yield from self._kill_all()

    def _on_reported(self, event: Reported) -> Iterator[Effect]:
        child = self.children[event.child]
        report = event.report
        if isinstance(report, Members):
            child.acquaintances = report.members
            return
        trigger, what = _meaning(report)
        if not child.can(trigger):
            yield Tell(What.BABBLED, child.index, f"{what} while {child.state.value}")
            return
        before = child.state
        child.move(trigger)
        if isinstance(report, Introduced):
            child.who = report
            child.came_up = True
            self._own.add(report.id)
            yield Tell(what, child.index, f"{report.kind} {report.id}.{report.incarnation}")
        elif isinstance(report, Waiting):
            yield Tell(what, child.index, report.reason)
        elif before is not child.state:
            self.founded = True
            yield Tell(what, child.index)

    def _on_babbled(self, event: Babbled) -> Iterator[Effect]:
        yield Tell(What.BABBLED, event.child, event.reason)

    def _on_exited(self, event: Exited) -> Iterator[Effect]:
        child = self.children[event.child]
        child.code = exit_code(event.status)
        yield from self._confirm(child)
        end = end_of(event.status, first=not child.came_up)
        yield from self._ended(child, end, describe(event.status))

    def _on_not_spawned(self, event: NotSpawned) -> Iterator[Effect]:
        child = self.children[event.child]
        child.code = 1
        yield from self._ended(child, End.DIED, event.reason)

    def _on_stop_asked(self, _: StopAsked) -> Iterator[Effect]:
        if self.stopping:
            yield from self._kill_all()
            return
        self.stopping = True
        if self.policy.leave_ms is not None:
            self.deadline = Millis(self._now + self.policy.leave_ms)
        for child in self.children:
            if child.running:
                child.move(Trigger.LEAVE)
                yield Signal(child.index, SIGTERM)
                yield Tell(What.LEAVING, child.index)
            elif child.state is State.RESTING:
                child.move(Trigger.END)

    def _on_kill_asked(self, event: KillAsked) -> Iterator[Effect]:
        child = self.children[event.child]
        if child.running:
            child.excused = True
            yield Tell(What.KILLED, child.index)
            yield Signal(child.index, SIGKILL)

    # What follows ---------------------------------------------------------------------------------

    def _spawn(self, child: Child) -> Spawn:
        child.move(Trigger.SPAWN)
        child.began = self._now
        return Spawn(child.index, self._may_found())

    def _ended(self, child: Child, end: End, words: str) -> Iterator[Effect]:
        """There is no process any more: again, or never again."""
        child.who = None
        if end is not End.DIED or self.stopping:
            what = {End.LEFT: What.LEFT, End.REFUSED: What.REFUSED, End.DIED: What.DIED}[end]
            child.move(Trigger.END)
            child.acquaintances = ()
            yield Tell(what, child.index, words)
            return
        if child.excused or self._now - child.began >= self.policy.stable_after_ms:
            child.failures = 0
        child.failures += not child.excused
        child.excused = False
        delay = self.policy.restart_delay(child.failures)
        child.move(Trigger.REST)
        child.due = Millis(self._now + delay)
        yield Tell(What.DIED, child.index, words)
        yield Tell(What.RESTARTS, child.index, f"in {delay} ms" if delay else "at once")
        if not delay:
            yield self._spawn(child)

    def _confirm(self, child: Child) -> Iterator[Effect]:
        who = child.who
        child.who = None
        if who is None:
            return
        to = self._listeners()
        if to:
            yield Confirm(child.index, who.id, who.incarnation, self._now, to)

    def _listeners(self) -> tuple[Address, ...]:
        """Who is known and may be alive, each once."""
        inside = (child.who.http for child in self.children if child.who is not None)
        outside = (other.http for other in self._outsiders())
        return tuple(sorted({address for address in (*inside, *outside) if address}))

    def _outsiders(self) -> Iterator[Acquaintance]:
        """Members of the last views that are not of this supervisor."""
        for child in self.children:
            for other in child.acquaintances:
                if other.id not in self._own:
                    yield other

    def _may_found(self) -> bool:
        if not self.founded:
            return True
        inside = any(child.who is not None for child in self.children)
        return not inside and next(self._outsiders(), None) is None

    def _kill_all(self) -> Iterator[Effect]:
        self.deadline = None
        for child in self.children:
            if child.running:
                yield Tell(What.KILLED, child.index)
                yield Signal(child.index, SIGKILL)

    def _code(self) -> int:
        return next((child.code for child in self.children if child.code), 0)


def _meaning(report: Introduced | Waiting | Ready) -> tuple[Trigger, What]:
    """What a report does to a child, and what is told of it."""
    if isinstance(report, Introduced):
        return Trigger.INTRODUCE, What.INTRODUCED
    if isinstance(report, Waiting):
        return Trigger.WAIT, What.WAITING
    return Trigger.SERVE, What.READY
