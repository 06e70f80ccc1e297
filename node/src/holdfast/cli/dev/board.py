"""What `holdfast dev` knows of its cluster: what the supervisor told, and what members answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.core.views import Kind
from holdfast.ids import MemberId
from holdfast.shell.supervisor.happenings import Tell, What
from holdfast.shell.supervisor.layout import Ports
from holdfast.shell.supervisor.reports import Introduced


@dataclass(frozen=True, slots=True)
class Held:
    """What one member has of the partition table, and what it does."""

    owned: int
    backups: int
    operations: float | None = None
    """Of applications, a second; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a member answered when it was asked how things are."""

    state: str
    pending: str
    """A change of the state that waits; empty for none."""
    master: MemberId
    safe: bool
    reasons: tuple[str, ...]
    """Why it is not safe."""
    moving: str
    """What migrations are under way; empty for none."""
    held: Mapping[MemberId, Held]


@dataclass(slots=True)
class Place:
    """One member of the local cluster: the same place after each restart."""

    name: str
    group: str
    kind: Kind
    ports: Ports
    state: str = "starting"
    note: str = ""
    """Why it is not ready."""
    who: Introduced | None = None
    """The last stay here that is known."""
    pid: int = 0
    deaths: int = 0
    last_lines: list[str] = field(default_factory=list)
    """What it printed lately."""

    @property
    def ready(self) -> bool:
        """Whether it serves."""
        return self.state == "ready"


STATES = {
    What.STARTED: "starting",
    What.INTRODUCED: "joining",
    What.WAITING: "joining",
    What.READY: "ready",
    What.LEAVING: "leaving",
    What.LEFT: "gone",
    What.REFUSED: "gone",
    What.DIED: "dead",
    What.RESTARTS: "restarting",
}
"""What each of these says about where a member is now."""


class Board:
    """All places, and the last sight of the cluster."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        self.sight: Sight | None = None
        self.problem = ""
        """Why there is no newer sight."""

    def hear(self, tell: Tell, who: Introduced | None) -> None:
        """The supervisor tells something; `who` is the stay that runs there now."""
        place = self.places[tell.child]
        if tell.what in STATES:
            place.state = STATES[tell.what]
            place.note = tell.detail if tell.what in (What.WAITING, What.RESTARTS) else ""
        if who is not None:
            place.who = who
        if tell.what is What.STARTED:
            place.pid = int(tell.detail.removeprefix("pid "))
        elif tell.what is What.DIED:
            place.deaths += 1

    @property
    def all_ready(self) -> bool:
        """Whether every member serves."""
        return all(place.ready for place in self.places)

    def held(self, place: Place) -> Held | None:
        """What the member in this place has, by the last sight."""
        if self.sight is None or place.who is None or not place.ready:
            return None
        return self.sight.held.get(place.who.id)

    def not_to_be_killed(self) -> str:
        """Why a death would prove nothing now, or would take data along; empty if it may be."""
        for place in self.places:
            if not place.ready:
                return f"{place.name} is {place.state}"
        if self.sight is None:
            return self.problem or "the cluster has not been seen yet"
        if not self.sight.safe:
            return f"it is not safe: {'; '.join(self.sight.reasons) or 'copies are missing'}"
        return ""
