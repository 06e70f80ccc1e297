"""Faults that are aimed at the data: at one partition, while it is written to.

Whatever goes wrong between an owner and its backups shows only if the very write that one of them
lacks was acknowledged, and its owner is gone before anybody repairs it. By chance that is rare. So
here a partition is chosen, applications are made to write to it, and something happens to whoever
holds it:

    press and kill      writes, and the owner ends a moment later
    kill in the middle  the owner or a backup ends, or sleeps, inside the step in which a frame, an
                        acknowledgement or a page of a sync comes or goes
    starve              one backup gets no frames, or a third of them, for a while; then it may get
                        one or two again, and the owner ends
    rot                 a bit changes on a disk, and the process ends
    again               some time after the owner has ended the next one does

The bounds of `faults` hold: whoever may not end does not. Chances are its own, and a seed without
applications has none of this.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from holdfast.core.table import Row
from holdfast.ids import MemberId, PartitionId
from holdfast.sim.clients import Clients
from holdfast.sim.faults import Faults
from holdfast.sim.process import Process
from holdfast.sim.timeline import MILLISECOND
from holdfast.sim.triggers import Blow, Moment, Trigger
from holdfast.sim.world import World

FRAME: Final = "BackupFrame"
FLOWING: Final = (FRAME, "BackupAck")
SYNCING: Final = ("ReplicaCheck", "SyncAsk", "SyncPlan", "SyncPull", "SyncPage", "SyncEnd")
MOMENTS_MS: Final = (0, 1, 3, 10, 40, 200)
"""How long after the writes somebody ends: about as long as a frame and its answer take."""


class Aim:
    """Draws such faults until it is told to stop."""

    def __init__(
        self, world: World, faults: Faults, clients: Clients, seed: int, gap_ms: int
    ) -> None:
        self.world = world
        self.faults = faults
        self.clients = clients
        self.rng = random.Random(f"aim of {seed}")
        self.gap_ms = gap_ms
        self._actions: tuple[Callable[[Row], None], ...] = (
            self._press_and_kill,
            self._kill_in_the_middle,
            self._kill_in_the_middle,
            self._starve,
            self._starve,
            self._again,
            self._rot,
        )

    def start(self) -> None:
        """Begin to draw."""
        if self.gap_ms:
            self._plan_next()

    def _plan_next(self) -> None:
        self._later(int(self.rng.expovariate(1.0) * self.gap_ms) + 1, self._next)

    def _later(self, delay_ms: int, action: Callable[..., None], *arguments: object) -> None:
        self.world.plan(delay_ms * MILLISECOND, self._unless_healed, action, arguments)

    def _unless_healed(self, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if not self.faults.stopped:
            action(*arguments)

    def _next(self) -> None:
        self._plan_next()
        rows = [row for row in self._rows() if row.holders[1:] and self._process(row.owner)]
        if rows:
            self.rng.choice(self._actions)(self.rng.choice(rows))

    def _rows(self) -> tuple[Row, ...]:
        """The table as a master has it, or anybody."""
        processes = self.world.processes
        leading = [process for process in processes if process.node.is_master]
        known = leading or processes
        return self.rng.choice(known).node.table.rows if known else ()

    def _process(self, member: MemberId | None) -> Process | None:
        found = (each for each in self.world.processes if each.member.id == member and each.awake)
        return next(found, None)

    # What is done --------------------------------------------------------------------------------

    def _press_and_kill(self, row: Row) -> None:
        self.clients.press(row.partition)
        self._later(self.rng.choice(MOMENTS_MS), self._kill_owner, row.partition)

    def _kill_in_the_middle(self, row: Row) -> None:
        victim = self._process(self.rng.choice((row.owner, self.rng.choice(row.holders[1:]))))
        if victim is None:
            return
        blow = self.rng.choice((Blow.CRASH, Blow.CRASH, Blow.PAUSE))
        kinds = self.rng.choice((FLOWING, FLOWING, SYNCING))
        trigger = Trigger(
            moment=self.rng.choice((Moment.SENDS, Moment.RECEIVES)),
            kind=self.rng.choice(kinds),
            blow=blow,
            place=self.rng.random(),
            skip=self.rng.choice((0, 0, 1, 3)),
        )
        if blow is Blow.CRASH:
            trigger.allowed = lambda: self.faults.may_crash(victim)
        victim.trigger = trigger
        self.world.marks["ends aimed at the data"] += 1
        self._press_for(row.partition, self.rng.choice((1, 3)))

    def _starve(self, row: Row) -> None:
        victim = self._process(self.rng.choice(row.holders[1:]))
        if victim is None:
            return
        network, number = self.world.network, victim.site.number
        share = self.rng.choice((0.65, 1.0, 1.0))
        lasting_ms = self.rng.choice((60, 500, 2_500))
        self.world.marks["backups starved of frames"] += 1
        self.world.tell(f"starve {number} of {share}")
        network.starve(FRAME, number, share)
        self._press_for(row.partition, self.rng.choice((2, 4, 8)))
        self.world.plan(lasting_ms * MILLISECOND, network.feed, FRAME, number)
        if self.rng.random() < 0.7:
            self._later(lasting_ms, self._press_and_kill, row)

    def _again(self, row: Row) -> None:
        self._press_and_kill(row)
        for delay_ms in (1_500, 4_000, 7_000):
            self._later(int(delay_ms * (0.5 + self.rng.random())), self._press_and_kill, row)

    def _rot(self, row: Row) -> None:
        victim = self._process(self.rng.choice(row.holders))
        if victim is not None:
            self.faults.rot(victim, self.rng)

    def _press_for(self, partition: PartitionId, times: int) -> None:
        for turn in range(times):
            self._later(turn * self.rng.choice((2, 20, 60)), self.clients.press, partition)

    def _kill_owner(self, partition: PartitionId) -> None:
        row = next((row for row in self._rows() if row.partition == partition), None)
        owner = None if row is None else self._process(row.owner)
        if owner is not None and self.faults.may_crash(owner):
            self.world.marks["owners ended while they were written to"] += 1
            self.world.crash(owner)
