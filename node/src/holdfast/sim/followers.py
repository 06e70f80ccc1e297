"""Readers of changes: they follow fragments from owner to owner, and keep what they were told.

`design/3` §10. Whoever follows goes on at the next owner with the point that it has. What comes
after a point has no hole, and a point names one mutation for ever, whoever tells it: of a journal
that moved, as of one that its member kept itself. A gap is told, and the reader goes on behind it.

In every other seed with applications there are readers. Chances are their own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.core.data.vectors import Point
from holdfast.core.effects import Effect, Reply
from holdfast.core.events import Commanded, Event
from holdfast.core.front.reading import point_of, text_of
from holdfast.core.node import Node
from holdfast.ids import PartitionId
from holdfast.sim.process import Process
from holdfast.sim.resp import ErrorReply, parse
from holdfast.sim.timeline import MILLISECOND
from holdfast.sim.world import World

READERS: Final = 3
GAP_MS: Final = 150
FIRST_SESSION: Final = 1_000_000
"""Beyond those of applications."""
COUNT: Final = 40
BEGINNING: Final = Point(0, 0)

Place = tuple[PartitionId, bytes]


@dataclass(slots=True)
class Question:
    """One that is under way, or was."""

    place: Place
    after: Point


class Followers:
    """All readers, and everything that they were told."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.rng = random.Random(f"followers of {seed}")
        self.present = self.rng.random() < 0.5
        self.stopped = False
        self.points: dict[Place, Point] = {}
        self.told: dict[tuple[Place, Point], tuple[object, object]] = {}
        self._questions: dict[int, Question] = {}
        self._last_session = FIRST_SESSION

    def start(self) -> None:
        """Begin to read, if there are any."""
        if self.present:
            for _ in range(READERS):
                self._plan()

    def _plan(self) -> None:
        gap_ms = self.rng.expovariate(1.0) * GAP_MS
        self.world.plan(int(gap_ms * MILLISECOND), self._read)

    def _read(self) -> None:
        """Ask whoever believes to own something for the changes after the last that came."""
        processes = [each for each in self.world.processes if isinstance(each.node, Node)]
        if processes:
            self._ask(self.rng.choice(processes))
        if not self.stopped:
            self._plan()

    def _ask(self, process: Process) -> None:
        assert isinstance(process.node, Node)
        places = [
            (partition, copy.name)
            for partition, holding in process.node.data.holdings.here.items()
            if holding.reign
            for copy in holding
            if copy.name
        ]
        if not places:
            return
        place = self.rng.choice(places)
        after = self.points.get(place, BEGINNING)
        self._last_session += 1
        self._questions[self._last_session] = Question(place, after)
        words = [b"HOLDFAST.JOURNAL", place[1], b"%d" % place[0], text_of(after), b"%d" % COUNT]
        self.world.give(process, Commanded(((self._last_session, [words]),)))

    # Answers --------------------------------------------------------------------------------------

    def stepped(self, process: Process, event: Event, effects: Sequence[Effect]) -> None:
        """Replies leave with the effects of a step."""
        del process, event
        for effect in effects:
            if type(effect) is Reply and effect.session in self._questions:
                self._replied(self._questions.pop(effect.session), parse(effect.data))

    def _replied(self, question: Question, reply: object) -> None:
        if isinstance(reply, ErrorReply):
            code, _, rest = reply.text.partition(" ")
            if code == "GAP":
                self.world.marks["gaps told to readers"] += 1
                self.points[question.place] = point_of(rest.rpartition(" ")[2].encode())
            return
        assert isinstance(reply, tuple)
        counter = question.after.counter
        for entry in reply:
            point, counter = point_of(entry[0]), counter + 1
            self._note(question.place, point, (entry[1], entry[2]), counter)
        if reply and self.points.get(question.place, BEGINNING) == question.after:
            self.points[question.place] = point_of(reply[-1][0])
            self.world.marks["changes read"] += len(reply)

    def _note(self, place: Place, point: Point, told: tuple[object, object], expected: int) -> None:
        if point.counter != expected:
            raise self.world.violation(
                "changes come without a hole",
                f"{place}: {point} where number {expected} was to come",
            )
        known = self.told.setdefault((place, point), told)
        if known != told:
            raise self.world.violation(
                "a point names one mutation", f"{place} {point}: {known} before, {told} now"
            )

    def ended(self, process: Process) -> None:
        """Questions that were asked there get no answer."""
