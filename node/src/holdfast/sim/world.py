"""Virtual time, processes, and effects carried out: the simulator's shell.

Rules
-----
* Time is microseconds. What is due is in one heap; what is due at the same moment happens in the
  order in which it was planned. A step takes no time.
* Effects are carried out in order, and a crash may come between any two of them.
* A message is encoded where it is sent and decoded where it arrives, by the codec of the wire.
* A disk writes in order and slowly; a crash loses what is not stable, or keeps a prefix of it.
* A paused process does nothing; what arrives waits, and is handled one by one afterwards. Its
  clock and its disk go on.

States
------
    (started) ──► awake ◄──► paused          a process never comes back: the site starts another
                    │           │
                    └─► gone ◄──┘

What can go wrong
-----------------
Whatever a node raises is a violation: an event that the world gives it is one that a shell could
give it, and bytes that break the rules never get that far.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from holdfast.core.config import Config
from holdfast.core.effects import (
    Answer,
    Continue,
    Effect,
    HangUp,
    Notice,
    NoticeKind,
    Pending,
    Persist,
    Reply,
    Send,
    Stop,
)
from holdfast.core.events import (
    ConfirmedDead,
    Continued,
    Event,
    Loaded,
    Persisted,
    Received,
    Started,
    Woke,
)
from holdfast.core.messages import Message
from holdfast.core.node import Node
from holdfast.core.turns import in_turns
from holdfast.errors import HoldfastError, InvariantViolated, RemoteProtocolError
from holdfast.ids import Address, Millis
from holdfast.sim.clocks import Clock
from holdfast.sim.disk import Disk
from holdfast.sim.machine import MachineFactory
from holdfast.sim.network import Network
from holdfast.sim.process import Process, Site, member_of
from holdfast.sim.story import Story
from holdfast.sim.surroundings import Death, Observer, Shell
from holdfast.sim.timeline import MILLISECOND, Timeline
from holdfast.sim.triggers import Blow
from holdfast.sim.walls import Walls
from holdfast.wire.codec import decode, encode

CONTINUE_US: Final = 200
QUEUE_US: Final = 50
"""How fast a process works off what waited while it was paused."""
WAKE_EARLIEST_US: Final = 1_000
STEPS_MAX: Final = 600_000
"""More than any sound seed needs: members that excite each other without end are a bug."""

_ENCODER: Final = msgspec.msgpack.Encoder()


class World(Timeline):
    """Everything there is, and the order in which it happens."""

    def __init__(
        self,
        *,
        rng: random.Random,
        config: Config,
        network: Network,
        shell: Shell,
        make_machine: MachineFactory,
        story: Story | None = None,
        walls: Walls | None = None,
    ) -> None:
        super().__init__()
        self.rng = rng
        self.config = config
        self.network = network
        self.shell = shell
        self.story = story if story is not None else Story()
        self.walls = walls if walls is not None else Walls(0, 0)
        self.observers: list[Observer] = []
        self.marks: Counter[str] = Counter()
        """What was seen to happen in this run, for the summary."""
        self.steps = 0
        self.founded = False
        self.sites: list[Site] = []
        self._shown: Process | None = None
        """Whose step is being looked at; its effects are still to be carried out."""
        self.deaths: list[Death] = []
        self._make_machine = make_machine
        self._by_address: dict[Address, Site] = {}
        self._serial = 0
        self._tearing = random.Random(0)
        """Of its own: how much of a record that is being written gets to the disk."""
        self._digest = hashlib.blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """A hash of everything that happened."""
        return self._digest.hexdigest()

    # Sites and processes -------------------------------------------------------------------------

    def add_site(self, site: Site) -> None:
        """A new place."""
        self.sites.append(site)
        self._by_address[site.address] = site

    @property
    def processes(self) -> list[Process]:
        """All that run, paused or not."""
        return [site.process for site in self.sites if site.process is not None]

    def launch(self, site: Site) -> Process:
        """Start a process at a site where none runs."""
        assert site.process is None, f"{site.name} runs already"
        if site.disk is None:
            # without the files of the last one, it is another member
            site.member = None
            site.disk = Disk() if site.persistent else None
        image = site.disk.image() if site.disk is not None else None
        member = member_of(site, self.rng)
        config = self._config(may_found=not self.founded)
        self._serial += 1
        process = Process(
            site=site,
            serial=self._serial,
            name=f"{site.name}.{site.starts}",
            node=self._make_machine(config, member),
            clock=self._clock(),
            started_us=self.now,
        )
        process.seen.incarnation = member.incarnation
        site.process = process
        self.marks["starts with files" if image is not None else "starts"] += 1
        self.give(process, Started(image))
        load_us = 0 if image is None else int(self.rng.random() * self.shell.load_us)
        self.plan(load_us, self.give, process, Loaded())
        self._tell_of_the_dead(process)
        return process

    def _config(self, *, may_found: bool) -> Config:
        """Whoever starts when the cluster is founded looks wherever anybody runs."""
        if may_found:
            return self.config
        running = tuple(process.site.address for process in self.processes)
        initial = tuple(dict.fromkeys((*self.config.initial, *running)))
        return replace(self.config, may_found=False, initial=initial)

    def _clock(self) -> Clock:
        skew = self.shell.clock_skew
        rate = 1_000_000 + (self.rng.randint(-skew, skew) if skew else 0)
        return Clock(self.rng.randrange(1, 10**10), rate, self.now)

    def crash(self, process: Process) -> None:
        """The process is gone at once."""
        self.story.tell(self.now, process.name, "✗ crashes")
        self.marks["crashes"] += 1
        disk = process.site.disk
        if disk is not None:
            self._lose(process, disk)
        self._end(process)

    def _lose(self, process: Process, disk: Disk) -> None:
        """What was not stable, if the power was gone as well."""
        if isinstance(process.node, Node):
            disk.unsure &= process.node.data.holdings.unsettled()
        if self.shell.lazy_us and self._tearing.random() < 0.5:
            disk.sync_all()
        elif self.shell.lazy_us:
            self.marks["power lost before data was stable"] += disk.pending > 0
            disk.unsure = True
        kept = self.rng.randint(0, disk.pending)
        self.marks["records lost that were not stable"] += disk.pending - kept
        disk.crash(kept, self._tearing.random())

    def _stop(self, process: Process) -> None:
        """The process has left in good order."""
        self.story.tell(self.now, process.name, "∎ ends in good order")
        self.marks["graceful leaves"] += 1
        if process.site.disk is not None:
            process.site.disk.crash(process.site.disk.pending)
        process.site.retired = True
        self._end(process)

    def _end(self, process: Process) -> None:
        site = process.site
        site.process = None
        site.incarnation = max(site.incarnation, process.node.me.incarnation)
        process.alive = False
        process.inbox.clear()
        self.walls.forget(process)
        death = Death(process.node.me.id, process.node.me.incarnation, self.now)
        self.deaths.append(death)
        self.founded = self.founded and self._somebody_knows()
        for observer in self.observers:
            observer.ended(process)
        if self.shell.arbiter_us is not None:
            for other in self.processes:
                delay = int(self.rng.random() * 2 * self.shell.arbiter_us)
                self.plan(delay, self._confirm, other, death)

    def _somebody_knows(self) -> bool:
        """Whether anyone, or any disk, has a view: else the cluster was never formed."""
        return any(
            (site.process is not None and site.process.node.view is not None)
            or (site.disk is not None and site.disk.view is not None)
            for site in self.sites
        )

    def _confirm(self, process: Process, death: Death) -> None:
        ago = Millis((self.now - death.at_us) // MILLISECOND)
        self.give(process, ConfirmedDead(death.id, death.incarnation, ago))

    def _tell_of_the_dead(self, process: Process) -> None:
        """An arbiter tells a new process what it knows; the last end of each member is enough."""
        if self.shell.arbiter_us is None:
            return
        last = {death.id: death for death in self.deaths}
        for death in last.values():
            self.plan(
                int(self.rng.random() * 2 * self.shell.arbiter_us), self._confirm, process, death
            )

    def pause(self, process: Process) -> None:
        """The process does nothing until it is resumed."""
        self.story.tell(self.now, process.name, "‖ pauses")
        self.marks["pauses"] += 1
        process.paused = True

    def resume(self, process: Process) -> None:
        """The process goes on with what waited for it."""
        if process.alive and process.paused:
            self.story.tell(self.now, process.name, f"▶ goes on, {len(process.inbox)} events wait")
            process.paused = False
            if process.rest is not None:
                effects, process.rest = process.rest, None
                self._carry_out(process, effects)
            self.plan(0, self._work_off, process)

    def _work_off(self, process: Process) -> None:
        """One of the waiting events; new ones queue behind them."""
        if not process.awake:
            return
        if not process.inbox:
            self._arm(process)
            return
        self._step(process, process.inbox.popleft())
        self.plan(QUEUE_US, self._work_off, process)

    # Steps ---------------------------------------------------------------------------------------

    def give(self, process: Process, event: Event) -> None:
        """An event for a process; it waits if the process is paused or has others waiting, and for
        the effects of the step before, if it comes of looking at that."""
        if not process.alive:
            return
        if process is self._shown:
            self.plan(0, self.give, process, event)
            return
        if process.paused or process.inbox:
            process.inbox.append(event)
            return
        self._step(process, event)

    def _step(self, process: Process, event: Event) -> None:
        node = process.node
        process.stepped_us, process.stepped_at = self.now, process.clock.read(self.now)
        self.walls.show(process)
        try:
            effects = node.step(event, process.stepped_at)
        except Exception as error:
            self.story.tell(self.now, process.name, event)
            raise self._raised(process, error) from error
        self.steps += 1
        process.steps += 1
        if self.steps > STEPS_MAX:
            raise self.violation("progress", f"more than {STEPS_MAX} steps")
        self._digest.update(_ENCODER.encode((self.now, process.name, type(event).__name__, event)))
        self.story.tell(self.now, process.name, event, effects)
        # The step is made, whatever becomes of its effects: some may be seen elsewhere although
        # the process sleeps before the last of them, or is gone.
        self._shown = process
        for observer in self.observers:
            observer.stepped(process, event, effects)
        self._shown = None
        trigger = process.trigger
        if trigger is not None:
            kept = trigger.strikes(event, effects)
            if kept is not None:
                process.trigger = None
                self._strike(process, trigger.blow, effects, kept)
                return
        self._carry_out(process, effects)
        self._finish(process)

    def _strike(self, process: Process, blow: Blow, effects: Sequence[Effect], kept: int) -> None:
        self.marks[f"{blow.name.lower()} inside a step"] += 1
        self._carry_out(process, effects[:kept])
        if blow is Blow.CRASH:
            if process.alive:
                self.crash(process)
            return
        if process.alive:
            self.pause(process)
            process.rest = effects[kept:]
            self.plan(self._pause_us(), self.resume, process)

    def _pause_us(self) -> int:
        """Mostly longer than a lease."""
        return int(self.rng.uniform(0.2, 4.0) * self.config.lease_ms * MILLISECOND)

    def _finish(self, process: Process) -> None:
        if process.awake:
            self._arm(process)

    def _raised(self, process: Process, error: Exception) -> InvariantViolated:
        name = "the core raises nothing"
        if isinstance(error, InvariantViolated):
            name = error.invariant
        told = error.story if isinstance(error, HoldfastError) else ()
        message = error.message if isinstance(error, HoldfastError) else str(error)
        text = f"{process.name}: {type(error).__name__}: {message}"
        return InvariantViolated(name, text, story=(*self.story.tail(), *told))

    def violation(self, invariant: str, message: str) -> InvariantViolated:
        """A broken invariant with the story up to now."""
        return InvariantViolated(invariant, message, story=self.story.tail())

    # Timers --------------------------------------------------------------------------------------

    def _arm(self, process: Process) -> None:
        """Have the process woken when it wants to be."""
        wake_at = process.node.wake_at
        if wake_at is None:
            return
        due = max(process.clock.when(wake_at), self.now)
        if process.wake_due is not None and process.wake_due <= due:
            return
        process.wake_due = due
        late = (
            0 if not self.shell.wake_late_us else int(self.rng.random() * self.shell.wake_late_us)
        )
        at = due + late if due > self.now else due + max(late, WAKE_EARLIEST_US)
        self.plan_at(at, self._wake, process, due)

    def _wake(self, process: Process, due: int) -> None:
        """A planned wake-up; nothing is done when it was moved to a later time since."""
        if process.wake_due != due or not process.alive:
            return
        process.wake_due = None
        wake_at = process.node.wake_at
        if wake_at is None:
            return
        if process.awake and process.clock.read(self.now) < wake_at:
            self._arm(process)
        else:
            self.give(process, Woke())

    # Effects -------------------------------------------------------------------------------------

    def _carry_out(self, process: Process, effects: Sequence[Effect]) -> None:
        """In the order of the list."""
        last_persist = 0
        for effect in effects:
            self._digest.update(_ENCODER.encode(effect))
            match effect:
                case Send(to=address, message=message):
                    self._send(process, address, message)
                case Persist(sequence=sequence):
                    disk = process.site.disk
                    assert disk is not None, f"{process.name} persists without a disk"
                    disk.write(effect)
                    last_persist = sequence
                case Continue():
                    self.plan(CONTINUE_US, self.give, process, Continued())
                case Notice():
                    self._note(effect)
                case Stop():
                    self._stop(process)
                    return
                case Answer() | Pending() | Reply() | HangUp():
                    pass
        if last_persist:
            self._sync_later(process, last_persist)

    def _send(self, process: Process, address: Address, message: Message) -> None:
        frame = encode(process.node.origin, message)
        target = self._by_address.get(address)
        if target is None:
            return
        kind = type(message).__name__
        for at in self.network.route(process.site.number, target.number, kind, self.now):
            self.plan_at(at, self._arrive, target, self.network.damaged(frame) or frame)

    def _arrive(self, site: Site, frame: bytes) -> None:
        """Whoever runs there now gets it."""
        process = site.process
        if process is None:
            return
        try:
            origin, message = decode(frame)
        except RemoteProtocolError:
            self.marks["damaged frames refused"] += 1
            return
        received = Received(origin, message)
        if not self.shell.turn_us:
            self.give(process, received)
            return
        if not process.arrived:
            self.plan(self.shell.turn_us, self._turn, process)
        process.arrived.append(received)

    def _turn(self, process: Process) -> None:
        """What arrived since the last one, as the shell of a real member gives it."""
        arrived, process.arrived = process.arrived, []
        for event in in_turns(arrived):
            self.give(process, event)

    def _sync_later(self, process: Process, sequence: int) -> None:
        disk = process.site.disk
        assert disk is not None
        if self.shell.lazy_us and not disk.urgent:
            self.plan(self.shell.lazy_us, self._stable, process, sequence)
            self.plan(0, self._written, process, sequence)
            return
        delay = int(self.rng.expovariate(1.0) * self.shell.disk_us) if self.shell.disk_us else 0
        disk.busy_until = max(disk.busy_until, self.now) + delay
        self.plan_at(disk.busy_until, self._synced, process, sequence)

    def _synced(self, process: Process, sequence: int) -> None:
        disk = process.site.disk
        if process.alive and disk is not None:
            disk.sync(sequence)
            self.give(process, Persisted(sequence))

    def _written(self, process: Process, sequence: int) -> None:
        if process.alive:
            self.give(process, Persisted(sequence))

    def _stable(self, process: Process, sequence: int) -> None:
        if process.alive and process.site.disk is not None:
            process.site.disk.sync(sequence)

    def _note(self, notice: Notice) -> None:
        self.marks[notice.kind.value] += 1
        if notice.kind is NoticeKind.FOUNDED:
            self.founded = True

    def tell(self, what: str) -> None:
        """Something that the world did, for the story and the digest."""
        self.story.tell(self.now, "world", what)
        self._digest.update(f"{self.now} {what}".encode())
