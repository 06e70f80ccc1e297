"""Wrong ways to move data: commit, hand-over, versions, bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from holdfast.core import rebalancing
from holdfast.core.assignment import assign
from holdfast.core.execution import Execution, Running, Word
from holdfast.core.messages import Completed, Migration
from holdfast.core.participation import Active, Part, Participation
from holdfast.core.schedule import Schedule
from holdfast.ids import MemberId, Version
from holdfast.sim.bugs import mixes
from holdfast.sim.bugs.fault import Bug, replaced

_commit_next: Final = Execution._commit_next
_commit: Final = Participation._commit
_look: Final = Participation._look_at_reached


def commits_alone(execution: Execution, running: Running, word: Word | None = None) -> None:
    """In the place of `Execution._commit_next`: no destination is asked."""
    running.uncommitted = ()
    _commit_next(execution, running, word)


def commits_without_data(participation: Participation, active: Active) -> None:
    """In the place of `Participation._commit`: the row is taken, what was sent is not."""
    _commit(participation, active)
    participation.context.drop(active.migration.partition)


def serves_by_commit(participation: Participation, active: Active) -> None:
    """In the place of `Participation._commit`: the publication is not waited for."""
    _commit(participation, active)
    partition = active.migration.partition
    participation.unpublished.pop(partition, None)
    participation.data.published(participation.context.table.row(partition))


def drops_when_ready(participation: Participation, active: Active) -> None:
    """In the place of `Participation._look_at_reached`: what was given is not kept any longer."""
    _look(participation, active)
    if active.part is Part.HANDED_OVER:
        participation.context.drop(active.migration.partition)


def keeps_writing(participation: Participation, active: Active) -> None:
    """In the place of `Participation._look_at_reached`: ready, but nothing is held back."""
    if None not in active.reached.values():
        participation._ready(active.migration, "")


def takes_part_anyway(_: Participation, migration: Migration, known: Sequence[Completed]) -> str:
    """In the place of `Participation._why_not`: neither version nor end nor lock is looked at."""
    del migration, known
    return ""


def is_what_it_was(migration: Migration) -> Version:
    """In the place of `Migration.version_failed`: nothing was changed, so nothing is raised."""
    return migration.version_before


def has_always_room(_: Schedule, party: Iterable[MemberId], parallel_max: int) -> bool:
    """In the place of `Schedule._has_room`: everything at once."""
    del party, parallel_max
    return True


BUGS: Final = (
    Bug(
        "master-commits-first",
        "The master commits before the destination has: the row names one that holds nothing.",
        partial(replaced, Execution, "_commit_next", commits_alone),
        start=3,
    ),
    Bug(
        "commit-without-data",
        "A destination commits the row and not the data: a copy is gone.",
        partial(replaced, Participation, "_commit", commits_without_data),
        start=3,
    ),
    Bug(
        "owner-keeps-writing",
        "The owner goes on acknowledging writes after the hand-over, beside the new owner.",
        partial(replaced, Participation, "_look_at_reached", keeps_writing),
        start=3,
    ),
    Bug(
        "version-not-compared",
        "A member takes part in a migration of a version that its row has passed.",
        partial(replaced, Participation, "_why_not", takes_part_anyway),
        start=58,
        mix=mixes.moving,
    ),
    Bug(
        "version-not-raised",
        "A migration that failed leaves the version as it was: who takes part never hears its end.",
        partial(replaced, Migration, "version_failed", property(is_what_it_was)),
        start=18,
    ),
    Bug(
        "bound-ignored",
        "More migrations run on a member than were allowed.",
        partial(replaced, Schedule, "_has_room", has_always_room),
        start=35,
    ),
    Bug(
        "serves-before-published",
        "A destination serves as owner once it has committed; the master may still take it back.",
        partial(replaced, Participation, "_commit", serves_by_commit),
        mix=mixes.moving,
    ),
    Bug(
        "repair-levels-all",
        "Where the state gives back and nothing else, a missing copy makes everybody level.",
        partial(replaced, rebalancing, "fill", assign),
        start=638,
    ),
    Bug(
        "source-drops-early",
        "An owner drops its data once it is copied; if the migration fails, it owns nothing.",
        partial(replaced, Participation, "_look_at_reached", drops_when_ready),
    ),
)
