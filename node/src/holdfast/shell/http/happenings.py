"""What happened to migrations, as far as this process remembers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.core.effects import Notice, NoticeKind
from holdfast.core.observing import MigrationsSeen

KEPT_MAX: Final = 1_000
OF_INTEREST: Final = (NoticeKind.MIGRATIONS_PLANNED, NoticeKind.MIGRATION_ENDED)


@dataclass(frozen=True, slots=True)
class Happened:
    """A plan that was made, or a migration that ended."""

    at: float
    """Seconds since 1970."""
    notice: Notice


@dataclass(slots=True)
class Pace:
    """When the present plan began, and when its last step ended."""

    planned_at: float = 0
    ended_at: float = 0


class Happenings:
    """Listens to the notices of the node."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: deque[Happened] = deque(maxlen=KEPT_MAX)
        self._pace = Pace()

    def note(self, notice: Notice) -> None:
        """Something happened."""
        if notice.kind not in OF_INTEREST:
            return
        now = self._clock()
        if notice.kind is NoticeKind.MIGRATIONS_PLANNED:
            self._pace.planned_at = now
        self._pace.ended_at = now
        self._kept.append(Happened(now, notice))

    def history(self) -> list[Happened]:
        """The newest last."""
        return list(self._kept)

    def elapsed(self, seen: MigrationsSeen) -> float:
        """Seconds since the present plan was made, until it ended."""
        if not self._pace.planned_at:
            return 0.0
        ended = not seen.running and not seen.waiting
        until = self._pace.ended_at if ended else self._clock()
        return max(until - self._pace.planned_at, 0.0)

    def rate(self, seen: MigrationsSeen) -> float:
        """Completed steps a second, since the present plan was made."""
        elapsed = self.elapsed(seen)
        return seen.completed / elapsed if elapsed else 0.0
