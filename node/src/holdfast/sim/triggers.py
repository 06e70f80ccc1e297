"""Crashes and pauses at a chosen step of a protocol, between any two effects.

A trigger waits at one process for a message of one kind that it receives or sends, or for any
record that it persists; then it strikes before or after that very effect. So every step of every
protocol is a place where a process may end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from holdfast.core.effects import Effect, Persist, Send
from holdfast.core.events import Event
from holdfast.sim.received import received_in


class Moment(Enum):
    """What a trigger waits for."""

    RECEIVES = auto()
    SENDS = auto()
    PERSISTS = auto()
    ANYTHING = auto()


class Blow(Enum):
    """What it does then."""

    CRASH = auto()
    PAUSE = auto()


@dataclass(slots=True)
class Trigger:
    """Strikes once. `skip` matches are let pass first."""

    moment: Moment
    kind: str
    blow: Blow
    place: float
    """Which of the effects that match, or of all of them: 0 is before the first, 1 after the
    last."""
    skip: int = 0
    allowed: Callable[[], bool] | None = None
    """Asked at the last moment; a blow that is not allowed then waits for the next match."""

    def strikes(self, event: Event, effects: Sequence[Effect]) -> int | None:
        """How many effects of this step are still carried out; None when it doesn't strike."""
        places = self._places(event, effects)
        if not places:
            return None
        if self.skip:
            self.skip -= 1
            return None
        if self.allowed is not None and not self.allowed():
            return None
        return places[min(int(self.place * len(places)), len(places) - 1)]

    def _places(self, event: Event, effects: Sequence[Effect]) -> list[int]:
        match self.moment:
            case Moment.RECEIVES:
                if any(type(each.message).__name__ == self.kind for each in received_in(event)):
                    return list(range(len(effects) + 1))
                return []
            case Moment.ANYTHING:
                return list(range(len(effects) + 1))
            case Moment.SENDS | Moment.PERSISTS:
                matching = [at for at, effect in enumerate(effects) if self._matches(effect)]
                return sorted({place for at in matching for place in (at, at + 1)})

    def _matches(self, effect: Effect) -> bool:
        if self.moment is Moment.PERSISTS:
            return isinstance(effect, Persist)
        return isinstance(effect, Send) and type(effect.message).__name__ == self.kind


PROTOCOL_KINDS: Final = (
    "Claim",
    "Promise",
    "NewView",
    "Fetch",
    "Report",
    "Publication",
    "PublicationAck",
    "MigrationRequest",
    "FragmentPush",
    "FragmentAck",
    "MigrationReady",
    "CommitRequest",
    "CommitAck",
    "Prepare",
    "PrepareAck",
    "Request",
    "RequestDone",
    "JoinRequest",
    "StablePublication",
)
"""Messages whose loss, or whose sender's or receiver's end, a protocol must survive."""


def draw_trigger(rng: random.Random, blow: Blow) -> Trigger:
    """A trigger at a step drawn from all protocols."""
    moment = rng.choice(
        (Moment.RECEIVES, Moment.SENDS, Moment.SENDS, Moment.PERSISTS, Moment.ANYTHING)
    )
    return Trigger(
        moment=moment,
        kind=rng.choice(PROTOCOL_KINDS),
        blow=blow,
        place=rng.random(),
        skip=rng.choice((0, 0, 0, 1, 2, 5)),
    )
