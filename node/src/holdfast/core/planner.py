"""The migrations that bring one row of the partition table from now to a target, in order.

Rules (seed 002 §3.2, seed 003 "Migration planning", `design/3` §3)
-------------------------------------------------------------------
A plan is a sequence of steps; the row may be seen, and anyone may die, between two of them.

1. The plan reaches the target. A cycle can't be planned: `cycles.repair_cycles` comes first.
2. No member is ever twice in a row.
3. Slot 0 is never vacant while anyone in the row lives: the owner is who sends the data. Hence a
   row that has lost its owner is promoted first, and a target without owner is reached last.
4. *Copies* (filled slots) never fall below min(now, target). Nor do, with `backups` = n < 6, the
   copies in slots 0..k for each k up to n: they hold the data of a namespace with k backups.
5. Hotter slots first. The hottest slot that differs is settled next, together with colder ones
   only where it depends on them, and is not touched again. Exceptions: a chain that gains copies
   goes ahead when rule 4 needs it; prioritised steps (`prioritise`, seed 002 §3.2.3), behind
   which a step may be cut in two that follow each other; what is only cleared is cleared last,
   coldest first: no one waits for it, and it is a copy until then.
6. A step is one migration unless rule 4 needs more. With the default `backups`, which gives the
   seeds' own plans, it never does.
7. No data is sent twice without need (seed 003): a member that only changes its slot keeps its
   data, whenever its chain ends in a vacant slot.

States
------
The row itself is the state. Where a slot's member goes to another slot, the two slots hang
together; all differing slots form *chains* (arrows: "my member goes there"), each with two ends.

    head                                    tail
    newcomer, or nobody ──► s0 ──► s1 ──► ... ──► sk    vacant, or held by one who leaves

        [A, B, C, D]    E ─► 3 ─► 2 ─► 1 ─► B leaves
        [A, C, D, E]    MOVE 3 D→E, MOVE 2 C→D, MOVE 1 B→C

    ends                    copies   how (`chains`)
    newcomer  / one leaves     0     from the head, each MOVE replaces the next member
    nobody    / one leaves    -1     the same; its first move is a SHIFT that replaces
    newcomer  / vacant        +1     from the tail, each SHIFT into the hole left by the one before
    nobody    / vacant         0     the same; the hole ends where the chain began

A SHIFT DOWN may fill the slot that it leaves: with a newcomer, or with a replica from a colder
slot. It is one migration since no copy changes its data for it but the one that gets hotter.
A slot that is vacated for good is cleared: a MOVE with a source and without destination. So the
rows after the steps tell everything, and the plan needs no fifth type.

What can go wrong
-----------------
* A chain that loses a copy is run before one that gains it, and the copies dip. Then the gaining
  chains go first. It always suffices: once none is left, what remains only falls to the target.
* The hole of a chain passes through a slot that is hotter than both of its ends. With `backups`
  below six, the moves that would show it there are put into one step.
* The owner moves to a slot whose member moves on: slot 0 would be a hole for a while. Its SHIFT
  DOWN takes along whoever comes to slot 0, who is new or comes from a colder slot, always.
* The owner is gone and the target's owner sits beyond slots 0..n, where it may have no data. The
  hottest replica is promoted first, "the first backup" of seed 002 §1.1, hands over, and goes
  back to where it was.
* Nobody in the row lives. There is no data to be sent; the first COPY makes an empty owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import ge
from typing import Final

from holdfast.core.chains import chain_through, clear, hand_over, moves_of, shift
from holdfast.core.cycles import check_rows, cycle_through, index_of, repair_cycles
from holdfast.core.migrations import Move, Step, apply_step
from holdfast.core.prioritise import prioritise
from holdfast.errors import PlanError
from holdfast.ids import NO_INDEX, REPLICA_COUNT_MAX, MemberId, Replicas

__all__ = ["BACKUPS_MAX", "plan", "repair_cycles"]

BACKUPS_MAX: Final = REPLICA_COUNT_MAX - 1


def plan(current: Replicas, target: Replicas, backups: int = BACKUPS_MAX) -> tuple[Step, ...]:
    """The steps from `current` to `target`, which must be free of cycles.

    `backups` is the greatest number of backups that any namespace has; below six, rule 4 also
    holds for namespaces with fewer, and some migrations become one step for it.
    """
    if current == target:
        return ()
    check_rows(current, target)
    if not 0 <= backups <= BACKUPS_MAX:
        raise PlanError(f"backups must be 0 to {BACKUPS_MAX}: {backups}")
    if any(cycle_through(current, target, slot) for slot in range(len(current))):
        raise PlanError(f"the target {target} has a cycle from {current}: repair it first")
    course = Course(current, target, backups)
    if current[0] is None and current.count(None) < len(current):
        course.promote()
    course.run()
    return course.in_order()


class Course:
    """The steps so far, the row after them, and what the next one must keep to."""

    def __init__(self, current: Replicas, target: Replicas, backups: int) -> None:
        self.current = current
        self.row = current
        self.target = target
        self.backups = backups
        self.floors = tuple(map(min, self.copies(current), self.copies(target)))
        self.steps: list[Step] = []

    def promote(self) -> None:
        """Give a row that lost its owner a new one (rule 3), unless the target's is at hand."""
        heir = index_of(self.row, self.target[0])
        if NO_INDEX < heir <= self.backups:
            return
        hottest = next(slot for slot, member in enumerate(self.row) if member is not None)
        if hottest != heir:
            self.take(shift(self.row[hottest], hottest, 0))
            if heir != NO_INDEX:
                self.take(hand_over(self.row[0], 0, hottest, self.row[heir], heir))

    def run(self) -> None:
        """Settle every slot that the target fills, hottest first; clear the rest, coldest first."""
        final = self.target
        if final[0] is None:
            self.target = keep_owner(self.row[0], final)
        for slot, member in enumerate(self.target):
            while member not in (None, self.row[slot]) and not self.settle(slot):
                self.gain()
        for slot in reversed(range(len(final))):
            leaver = self.row[slot]
            if leaver is not None and leaver != final[slot]:
                new = index_of(final, leaver)
                self.take(clear(leaver, slot) if new == NO_INDEX else shift(leaver, slot, new))

    def settle(self, slot: int) -> bool:
        """Run the slot's chain until it is settled. False, and nothing done, when copies dip."""
        return self.advance(chain_through(self.row, self.target, slot), slot)

    def gain(self) -> None:
        """Run the hottest chain that adds to the copies, so that another may take from them."""
        chains = (
            chain_through(self.row, self.target, slot)
            for slot, member in enumerate(self.target)
            if member not in (None, self.row[slot])
        )
        chain = next(chain for chain in chains if self.gains(chain))
        done = self.advance(chain, chain[0])
        assert done, f"a chain that gains copies lost some: {self.row} to {self.target}"

    def gains(self, chain: list[int]) -> bool:
        """Whether a chain ends with more copies than it began with, where they are counted."""
        head, tail = chain[0], chain[-1]
        hotter = tail < head and tail <= self.backups < BACKUPS_MAX
        return self.row[tail] is None and (self.target[head] is not None or hotter)

    def advance(self, chain: list[int], until: int) -> bool:
        """Take steps along a chain; each is as short as the copies allow (rules 4 and 6)."""
        steps = []
        for step, row in self.cut(self.row, moves_of(self.row, self.target, chain)):
            steps.append(step)
            if row[until] == self.target[until]:
                self.steps += steps
                self.row = row
                return True
        return False

    def cut(self, row: Replicas, moves: Iterable[Move]) -> Iterator[tuple[Step, Replicas]]:
        """Moves in steps as short as the copies allow (rules 4 and 6), with the row after each."""
        step: Step = ()
        for move in moves:
            step = (*step, move)
            after = apply_step(row, step)
            if all(map(ge, self.copies(after), self.floors)):
                yield step, after
                step, row = (), after

    def take(self, move: Move) -> None:
        """A step that is not part of a chain."""
        self.steps.append((move,))
        self.row = move.apply(self.row)

    def in_order(self) -> tuple[Step, ...]:
        """The steps, prioritised. One that has to wait may be cut, as there are more copies now."""
        ordered = prioritise(self.steps)
        if self.backups == BACKUPS_MAX:
            return ordered
        row, steps = self.current, []
        for whole in ordered:
            for step, after in self.cut(row, whole):
                steps.append(step)
                row = after
        return tuple(steps)

    def copies(self, row: Replicas) -> tuple[int, ...]:
        """How many slots are filled, wherever rule 4 counts them."""
        filled = len(row) - row.count(None)
        if self.backups == BACKUPS_MAX:
            return (filled,)
        return filled, *accumulate(member is not None for member in row[: self.backups + 1])


def keep_owner(owner: MemberId | None, target: Replicas) -> Replicas:
    """A target without owner, but for its last step: the owner still sends what others need."""
    return owner, *(None if member == owner else member for member in target[1:])
