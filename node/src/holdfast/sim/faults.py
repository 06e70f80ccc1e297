"""What goes wrong: one fault after another, each with its end.

    crash, destroy    the process ends; with its disk, or without (then nobody returns by that id)
    … inside a step   the same, and pauses, between two effects of a step (`triggers`)
    pause             the process stands still, mostly for longer than its lease
    cut, split, flap  links that carry nothing: one way, between groups, on and off
    slow, mute        links that are slow, messages of one kind that are lost
    clock             a clock goes on at another rate, and the time of day is set
    blackout          every process ends at once, unless the cluster still waits for an arbiter's
                      word about a member that never returns: who comes back can't tell any more
                      whether it died in time

What is bounded, so that the cluster has a chance: a member is *destroyed* only while those that
can still come back are a majority of everyone who may be asked for a vote; with an arbiter, which
confirms the death, it is enough that the cluster is calm and that somebody is left. No promise
says what happens beyond that (`design/3` §1). Nor does the last one that stays end, be it to come
back, while others were asked to go: with the arbiter's word that it is dead these decide alone, go
on without it, and leave with the newest of everything in their files, as they may (`service`); who
comes back then waits for them, and nobody starts them here. The recovery policy FULL waits for
every member that had files: there no files are lost, and whoever is waited for is started.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from holdfast.core.config import RecoveryPolicy
from holdfast.core.effects import Effect
from holdfast.core.events import Event, Received
from holdfast.core.messages import NewView, NotListed
from holdfast.core.views import Kind, View
from holdfast.ids import MemberId
from holdfast.sim.network import split
from holdfast.sim.options import Options
from holdfast.sim.process import Process, Site
from holdfast.sim.timeline import MILLISECOND, SECOND
from holdfast.sim.triggers import PROTOCOL_KINDS, Blow, draw_trigger
from holdfast.sim.workload import kind_of
from holdfast.sim.world import World

CALM_US: Final = 3 * SECOND
"""How long after one destroyed member the next may be, when it is the arbiter that saves us."""


class Faults:
    """Draws faults until it is told to stop."""

    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.rng = world.rng
        self.options = options
        self.stopped = False
        self._kinds = [kind for kind, _ in options.faults]
        self._weights = [weight for _, weight in options.faults]
        self._destroyed_us = -1_000 * SECOND
        self._actions: dict[str, Callable[[], None]] = {
            "crash": self._crash,
            "crash inside a step": lambda: self._arm(Blow.CRASH),
            "pause": self._pause,
            "pause inside a step": lambda: self._arm(Blow.PAUSE),
            "destroy": self._destroy,
            "cut": self._cut,
            "split": self._split,
            "flap": self._flap,
            "slow": self._slow,
            "mute": self._mute,
            "clock": self._clock,
            "blackout": self._blackout,
        }

    def start(self) -> None:
        """Begin to draw."""
        if self._kinds:
            self._plan_next()

    def _plan_next(self) -> None:
        gap = int(self.rng.expovariate(1.0) * self.options.fault_gap_ms) + 1
        self.world.plan(gap * MILLISECOND, self._next)

    def _next(self) -> None:
        if not self.stopped:
            kind = self.rng.choices(self._kinds, self._weights)[0]
            self._actions[kind]()
            self._plan_next()

    def heal(self) -> None:
        """Nothing goes wrong from now on; everyone who can run runs."""
        world = self.world
        self.stopped = True
        world.tell("heals")
        world.network.mend()
        for site in world.sites:
            process = site.process
            if process is None:
                site.retired = site.retired and not self._is_waited_for(site)
                self._restart(site)
                continue
            process.trigger = None
            world.resume(process)

    # Observing: a process that ended inside a step is started again -------------------------------

    def stepped(self, process: Process, event: Event, effects: Sequence[Effect]) -> None:
        """Nothing to do."""

    def ended(self, process: Process) -> None:
        """Start the site again after a while, unless it is to stay empty."""
        delay = self.rng.choice((50, 500, 3_000, 8_000)) * MILLISECOND
        self.world.plan(int(delay * (0.5 + self.rng.random())), self._restart, process.site)

    def _restart(self, site: Site) -> None:
        if site.process is None and not site.retired:
            self.world.launch(site)

    # Processes -----------------------------------------------------------------------------------

    def _pick(self) -> Process | None:
        awake = [process for process in self.world.processes if process.awake]
        return self.rng.choice(awake) if awake else None

    def _crash(self) -> None:
        process = self._pick()
        if process is not None and self.may_crash(process):
            self.world.crash(process)

    def may_crash(self, process: Process) -> bool:
        """A member with a disk returns, one without does not; never both at the same time."""
        if (
            process.site.persistent
            and self._is_calm()
            and not self._leaves_it_to_the_going(process)
        ):
            return True
        if not self._may_destroy(process):
            return False
        self._destroyed_us = self.world.now
        return True

    def _destroy(self) -> None:
        """The process ends and its disk is lost."""
        process = self._pick()
        if process is None or not self._may_destroy(process):
            return
        if process.site.persistent:
            self.world.marks["disks lost"] += 1
        process.site.disk = None
        self._destroyed_us = self.world.now
        self.world.crash(process)

    def rot(self, process: Process, rng: random.Random) -> None:
        """A record of its disk is broken, and the process ends: whoever starts there finds that
        the files are of no use, and is another member."""
        disk = process.site.disk
        if disk is None or not self._may_destroy(process) or not disk.rot(rng):
            return
        self.world.marks["records broken on disk"] += 1
        if not disk.is_readable():
            self.world.marks["files refused for a broken record"] += 1
            process.site.disk = None
        self._destroyed_us = self.world.now
        self.world.crash(process)

    def _arm(self, blow: Blow) -> None:
        process = self._pick()
        if process is None:
            return
        process.trigger = draw_trigger(self.rng, blow)
        if blow is Blow.CRASH:
            process.trigger.allowed = lambda: self.may_crash(process)

    def _pause(self) -> None:
        process = self._pick()
        if process is not None:
            self.world.pause(process)
            lease_us = self.options.config.lease_ms * MILLISECOND
            self.world.plan(int(self.rng.uniform(0.2, 4.0) * lease_us), self.world.resume, process)

    def _clock(self) -> None:
        process = self._pick()
        skew = self.options.shell.clock_skew
        if process is not None and skew:
            process.clock.set_rate(1_000_000 + self.rng.randint(-skew, skew), self.world.now)
        if process is not None:
            self.world.walls.clock(process).set(self.world.now)

    def _blackout(self) -> None:
        """Everyone ends at once, where everyone who has data has a disk."""
        running = self.world.processes
        if not all(p.site.persistent or kind_of(p) is Kind.LITE for p in running):
            return
        if not self._is_calm():
            return
        self.world.tell("blackout")
        self.world.marks["blackouts"] += 1
        for process in running:
            self.world.crash(process)

    # The bound -----------------------------------------------------------------------------------

    def _may_destroy(self, process: Process) -> bool:
        """Whether the cluster can go on when this member never returns."""
        if process.site.persistent and self._full_recovery:
            return False
        views = self._newest_views()
        if not views:
            return process.site.address not in self.options.config.initial
        if process.node.view is None and not any(v.find(process.member.id) for v in views):
            return True
        if not self._somebody_stays(process, views[0]):
            return False
        returning = self._returning(process)
        if all(_majority_left(view, returning) for view in views):
            return True
        return self._arbiter_saves(process, views[0])

    def _somebody_stays(self, without: Process, newest: View) -> bool:
        """A voter that was not asked to go: when all others have left, it is the cluster."""
        return any(
            process is not without
            and not process.going
            and any(voter.id == process.member.id for voter in newest.voters)
            for process in self.world.processes
        )

    def _leaves_it_to_the_going(self, process: Process) -> bool:
        """Whether all voters that are left were asked to go, also those that the newest view takes
        out: before it is sealed they may not know of it."""
        views = self._newest_views()
        if self.options.shell.arbiter_us is None or not views:
            return False
        voters = {voter.id for voter in (*views[0].voters, *views[0].base)}
        others = [other for other in self.world.processes if other is not process]
        going = any(other.going and other.member.id in voters for other in others)
        return going and not self._somebody_stays(process, views[0])

    def _newest_views(self) -> list[View]:
        """The newest view that anyone holds, and those that others hold, newest first. One that
        waits at the door of a process which stands still is as good as held."""
        found: dict[tuple[int, int], View] = {}
        for site in self.world.sites:
            process = site.process
            for view in (
                None if process is None else process.node.view,
                site.disk.view if site.disk is not None else None,
                *(() if process is None else _waiting_at(process)),
            ):
                if view is not None:
                    found[view.key] = view
        return [found[key] for key in sorted(found, reverse=True)]

    def _returning(self, without: Process | None = None) -> frozenset[MemberId]:
        """Members that run, or whose disk will bring them back."""
        return frozenset(
            site.member
            for site in self.world.sites
            if site.member is not None
            and (without is None or site is not without.site)
            and not site.retired
            and (site.process is not None or site.disk is not None)
        )

    def _arbiter_saves(self, process: Process, newest: View) -> bool:
        """A calm cluster, whose members are all in the newest view, survives a confirmed death; not
        one that comes back from files: it waits for whoever was listed, and may end meanwhile."""
        if self.options.shell.arbiter_us is None:
            return False
        if not self._is_calm():
            return False
        others = [other for other in self.world.processes if other is not process]
        here = {other.member.id: other for other in others if other.awake}
        rest = [member for member in newest.members if member.id != process.member.id]
        if newest.recovering or not newest.sealed or not any(member.votes for member in rest):
            return False
        return self._led(newest) and all(_holds(here.get(member.id), newest) for member in rest)

    def _is_calm(self) -> bool:
        """Whether the last member that never returns is dealt with by now: those who stand still
        when they are told of its death take longer than the arbiter."""
        arbiter_us = self.options.shell.arbiter_us or 0
        newest = self._newest_views()[:1]
        told = self.world.now - self._destroyed_us >= CALM_US + 2 * arbiter_us
        return told and all(_majority_left(view, self._returning()) for view in newest)

    def _led(self, view: View) -> bool:
        return any(
            process.node.is_master and process.node.view == view and process.awake
            for process in self.world.processes
        )

    @property
    def _full_recovery(self) -> bool:
        return self.options.config.recovery_policy is RecoveryPolicy.FULL

    def _is_waited_for(self, site: Site) -> bool:
        views = self._newest_views()
        listed = bool(views) and site.member is not None and views[0].find(site.member) is not None
        return listed and site.persistent and self._full_recovery

    # Links ---------------------------------------------------------------------------------------

    def _while(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """A fault that ends after a while; a mended network has ended it already."""
        begin()
        lasting = int(self.rng.choice((300, 1_500, 4_000, 9_000)) * (0.5 + self.rng.random()))
        self.world.plan(lasting * MILLISECOND, lambda: None if self.stopped else end())

    def _cut_links(self, links: Sequence[tuple[int, int]]) -> None:
        network = self.world.network
        self.world.marks["cuts"] += 1
        self._while(lambda: network.cut(links), lambda: network.heal(links))

    def _cut(self) -> None:
        """One direction of some links of one site, or all of them."""
        here = self.rng.choice(self.world.sites).number
        there = [site.number for site in self.world.sites if site.number != here]
        some = [number for number in there if self.rng.random() < 0.6] or there
        inward, outward = [(n, here) for n in some], [(here, n) for n in some]
        links = self.rng.choice((inward, outward, inward + outward))
        self.world.tell(f"cut {links}")
        self._cut_links(links)

    def _split(self) -> None:
        """Two or three groups that can't reach each other."""
        count = self.rng.choice((2, 2, 2, 3))
        groups: list[list[int]] = [[] for _ in range(count)]
        for site in self.world.sites:
            self.rng.choice(groups).append(site.number)
        self.world.tell(f"split {groups}")
        self._cut_links(split(groups))

    def _flap(self) -> None:
        """A cut that comes and goes."""
        numbers = [site.number for site in self.world.sites]
        links = [(self.rng.choice(numbers), self.rng.choice(numbers)) for _ in range(3)]
        self.world.tell(f"flapping {links}")
        for turn in range(self.rng.randint(2, 8)):
            begin = turn * self.rng.choice((300, 1_000)) * MILLISECOND
            self.world.plan(begin, self._flap_once, links)

    def _flap_once(self, links: Sequence[tuple[int, int]]) -> None:
        if not self.stopped:
            self.world.network.cut(links)
            lasting = self.rng.randint(100, 900) * MILLISECOND
            self.world.plan(lasting, lambda: None if self.stopped else self._unflap(links))

    def _unflap(self, links: Sequence[tuple[int, int]]) -> None:
        self.world.network.heal(links)

    def _slow(self) -> None:
        number, network = self.rng.choice(self.world.sites).number, self.world.network
        self.world.tell(f"slow {number}")
        self._while(lambda: network.slow(number), lambda: network.hasten(number))

    def _mute(self) -> None:
        kind, network = self.rng.choice(PROTOCOL_KINDS), self.world.network
        self.world.tell(f"mute {kind}")
        self.world.marks["messages of one kind lost"] += 1
        self._while(lambda: network.mute(kind), lambda: network.unmute(kind))


def _majority_left(view: View, returning: frozenset[MemberId]) -> bool:
    """Of the voters, and of those before them as long as these have a say; and of a cluster that
    is being founded, so many as make it exist (`docs/adr/0009`)."""
    if sum(member.id in returning for member in view.members) < view.founding:
        return False
    for voters in (view.voters, view.base):
        left = sum(1 for member in voters if member.id in returning)
        if voters and left * 2 <= len(voters):
            return False
    return True


def _waiting_at(process: Process) -> Iterator[View]:
    """Views that it will install when it goes on."""
    held = process.node.view
    for event in process.inbox:
        message = event.message if isinstance(event, Received) else None
        if isinstance(message, NewView | NotListed) and (
            held is None or message.view.key > held.key
        ):
            yield message.view


def _holds(process: Process | None, view: View) -> bool:
    """Whether a member is in it, too: who came back from files is let in first."""
    if process is None or process.node.view != view:
        return False
    return view.has(process.member.id, process.member.incarnation)
