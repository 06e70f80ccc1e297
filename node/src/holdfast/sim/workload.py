"""What administrators do: state changes, promotions, demotions, departures, new members.

A request is asked at one member and answered there. What was asked and not answered is kept, for
the checker of requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.config import LEVEL_MAX
from holdfast.core.events import Asked
from holdfast.core.messages import Ask, Request
from holdfast.core.states import ASKABLE, ClusterState
from holdfast.core.views import Kind
from holdfast.ids import Address, Millis
from holdfast.sim.options import MEMBERS_MAX, Options
from holdfast.sim.process import Process, Site
from holdfast.sim.timeline import MILLISECOND
from holdfast.sim.world import World

DATA_MEMBERS_MIN: Final = 2
"""So many data members are left by departures and demotions: nobody ends the cluster by asking."""


class Workload:
    """Asks until it is told to stop."""

    def __init__(
        self, world: World, options: Options, asked: Callable[[Process, Request], None]
    ) -> None:
        self.world = world
        self.rng = world.rng
        self.options = options
        self.stopped = False
        self._asked = asked
        self._count = 0
        self._kinds = [kind for kind, _ in options.asks]
        self._weights = [weight for _, weight in options.asks]
        self._actions: dict[str, Callable[[], None]] = {
            "state": self._state,
            "leave": self._leave,
            "promote": lambda: self._about_kind(Ask.PROMOTE, Kind.LITE),
            "demote": self._demote,
            "level": self._level,
            "join": self._join,
        }

    def start(self) -> None:
        """Begin to ask."""
        if self._kinds:
            self._plan_next()

    def _plan_next(self) -> None:
        gap = int(self.rng.expovariate(1.0) * self.options.ask_gap_ms) + 1
        self.world.plan(gap * MILLISECOND, self._next)

    def _next(self) -> None:
        if not self.stopped:
            kind = self.rng.choices(self._kinds, self._weights)[0]
            self._actions[kind]()
            self._plan_next()

    # Asking --------------------------------------------------------------------------------------

    def ask(
        self,
        process: Process,
        ask: Ask,
        *,
        state: ClusterState = ClusterState.ACTIVE,
        level: int = 0,
        wait_ms: int = 0,
    ) -> str:
        """Ask this member now; the id of the request."""
        self._count += 1
        request = Request(
            id=f"r{self._count}",
            ask=ask,
            state=state,
            level=level,
            wait_ms=Millis(wait_ms),
            stamp=process.node.table.stamp,
        )
        self.world.marks[f"asked to {ask}"] += 1
        self._asked(process, request)
        self.world.give(process, Asked(request))
        return request.id

    def _wait_ms(self) -> int:
        return self.rng.choice((0, 1_000, 10_000))

    def _pick(self) -> Process | None:
        awake = [process for process in self.world.processes if process.awake]
        return self.rng.choice(awake) if awake else None

    def _state(self) -> None:
        process = self._pick()
        if process is not None:
            calm = (ClusterState.ACTIVE,) * 4
            state = self.rng.choice((*ASKABLE, *calm, ClusterState.IN_TRANSITION))
            self.ask(process, Ask.STATE, state=state, wait_ms=self._wait_ms())

    def _level(self) -> None:
        process = self._pick()
        if process is not None:
            level = self.rng.randint(1, LEVEL_MAX)
            self.ask(process, Ask.LEVEL, level=level, wait_ms=self._wait_ms())

    def _about_kind(self, ask: Ask, kind: Kind) -> None:
        """Mostly a member of the kind that can be changed, sometimes any."""
        right = [p for p in self.world.processes if p.awake and kind_of(p) is kind]
        process = self.rng.choice(right) if right and self.rng.random() < 0.9 else self._pick()
        if process is not None:
            if ask is Ask.DEMOTE:
                process.going = True
            self.ask(process, ask)

    def _demote(self) -> None:
        if self._data_left() > DATA_MEMBERS_MIN:
            self._about_kind(Ask.DEMOTE, Kind.DATA)

    def _leave(self) -> None:
        process = self._pick()
        if process is None or process.node.view is None:
            return  # it would be gone at once, and those that found might need it
        if self.world.founded and self._data_left() > DATA_MEMBERS_MIN:
            process.going = True
            self.ask(process, Ask.LEAVE)

    def _data_left(self) -> int:
        """Voters that run and were not asked to go. Whoever was cut off for so long that the newest
        view lists it no more is none: it can't go on when the others have left."""
        processes = self.world.processes
        views = [process.node.view for process in processes if process.node.view is not None]
        newest = max(views, key=lambda view: view.key, default=None)
        voters = {voter.id for voter in newest.voters} if newest is not None else set()
        return sum(process.member.id in voters and not process.going for process in processes)

    # Joining -------------------------------------------------------------------------------------

    def _join(self) -> None:
        """A new place, or one whose member left in good order before."""
        sites = self.world.sites
        gone = [site for site in sites if site.retired and site.process is None]
        if gone and self.rng.random() < 0.5:
            site = self.rng.choice(gone)
            site.retired = False
            self.world.launch(site)
        elif len(sites) < MEMBERS_MAX:
            self.world.launch(self.add_site())

    def add_site(self, kind: Kind | None = None) -> Site:
        """A place that nobody ever ran at."""
        number = len(self.world.sites)
        site = Site(
            number=number,
            name=f"m{number:02}",
            address=Address(f"m{number:02}:5701"),
            group=f"g{self.rng.randrange(number)}",
            kind=kind or self.rng.choice((Kind.DATA, Kind.DATA, Kind.LITE)),
            persistent=any(site.persistent for site in self.options.sites),
            level_max=LEVEL_MAX,
        )
        self.world.add_site(site)
        return site


def kind_of(process: Process) -> Kind:
    """What the newest view that it holds says that it is; before that, what it wants to be."""
    view = process.node.view
    listed = None if view is None else view.find(process.member.id)
    return process.member.kind if listed is None else listed.kind
