"""What the files of an old cluster say together: of each partition, which copy counts.

Rules (seed 003, "Move files to start new cluster"; `design/5`, "Restore")
--------------------------------------------------------------------------
* A *survey* is all that has to be known of one member's files before any of its data is read again:
  small, and to be sent to whoever plans (`outline`).
* Of each partition the copy counts that the newest row known in these files calls the owner's, if
  it is whole; else the whole copy that got furthest; else the one that got furthest.
* All files are of one cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.core.stores.space import STAGING
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.errors import RecoveryError, StorageError
from holdfast.ids import PartitionId, Term
from holdfast.storage import layout
from holdfast.storage.files import Readable
from holdfast.storage.format.manifest import Identity
from holdfast.storage.outline import Outline, all_written, outlined
from holdfast.storage.recovery import Watch, recover


@dataclass(frozen=True, slots=True)
class Stood:
    """Where a fragment stands in the end."""

    generation: int
    epoch: int
    counter: int
    clean: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """What one member's files have, without the data."""

    identity: Identity
    view: View | None
    promised: Term
    rows: tuple[Row, ...]
    held: Mapping[PartitionId, int]
    """Epoch of the data of each partition that is there."""
    stood: Mapping[PartitionId, Mapping[bytes, Stood]]
    sizes: Mapping[PartitionId, int]
    """What was written of each partition, about."""
    count: int
    """The greatest number of a mutation."""
    bytes: int
    """Of all its files."""


def surveyed(files: Readable, where: str, watch: Watch | None = None) -> Survey:
    """Read a member's files, or a backup of them, and keep no data."""
    outline = Outline()
    found = recover(files, watch=watch, fold=outlined(outline))
    if found is None:
        raise StorageError(where, "there are no files of a member")
    control = found.fold.control
    stood: dict[PartitionId, dict[bytes, Stood]] = {}
    for partition, written in all_written(outline):
        last = written.last
        epoch, counter, _ = last.stand
        stands = Stood(last.generation, epoch, counter, last.clean)
        stood.setdefault(partition, {})[last.name] = stands
    held = {partition: each.epoch for partition, each in outline.held.items()}
    size = sum(files.size(name) for name in layout.files_of(found.manifest))
    return Survey(
        found.identity,
        control.view,
        control.promised,
        control.table,
        held,
        stood,
        outline.sizes,
        outline.count,
        size,
    )


@dataclass(frozen=True)
class Past:
    """What the old files say together."""

    surveys: Sequence[Survey]

    @cached_property
    def partition_count(self) -> int:
        """Of the old cluster."""
        return self.surveys[0].identity.partition_count

    @cached_property
    def rows(self) -> dict[PartitionId, Row]:
        """The newest of each partition."""
        rows: dict[PartitionId, Row] = {}
        for each in self.surveys:
            for row in each.rows:
                if row.partition not in rows or row.version > rows[row.partition].version:
                    rows[row.partition] = row
        return rows

    @cached_property
    def epoch(self) -> int:
        """Greater than every epoch and reign in them."""
        rows = self.rows.values()
        epochs = [row.reign for row in rows] + [row.epoch for row in rows]
        for survey in self.surveys:
            for named in survey.stood.values():
                epochs += [max(each.epoch, each.generation) for each in named.values()]
        return max(epochs, default=0) + 1

    @cached_property
    def count(self) -> int:
        """Number of the last mutation of any fragment in them."""
        return max((each.count for each in self.surveys), default=0)

    @cached_property
    def term(self) -> Term:
        """Later than any that was promised."""
        terms = [each.promised for each in self.surveys]
        terms += [each.view.term for each in self.surveys if each.view is not None]
        return Term(max(terms) + 1)

    def missing(self) -> tuple[int, ...]:
        """Partitions that nobody had, or perhaps not all of."""
        return tuple(
            number
            for number in range(self.partition_count)
            if not self._is_covered(PartitionId(number))
        )

    def _is_covered(self, partition: PartitionId) -> bool:
        holders = self._holders(partition)
        row = self.rows.get(partition)
        if row is None or row.owner in (None, *(each.identity.member for each in self.surveys)):
            return bool(holders) or any(partition in each.held for each in self.surveys)
        return bool(holders) and min(holders) <= self._reach

    def _holders(self, partition: PartitionId) -> dict[int, Survey]:
        """Who has it and stands in its row, by index."""
        row = self.rows.get(partition)
        replicas = () if row is None else row.replicas
        return {
            replicas.index(each.identity.member): each
            for each in self.surveys
            if partition in each.held and each.identity.member in replicas
        }

    @cached_property
    def _reach(self) -> int:
        """The last index of which it is seen that it has everything."""
        furthest, limit = 0, self.surveys[0].identity.replica_count
        for partition in map(PartitionId, range(self.partition_count)):
            before: frozenset[bytes] = frozenset()
            for index, survey in sorted(self._holders(partition).items()):
                names = frozenset(survey.stood.get(partition, {})) - {STAGING}
                furthest = max(furthest, index if names else 0)
                limit = min(limit, index - 1 if before - names else limit)
                before |= names
        return min(furthest, limit)

    def best(self, partition: PartitionId) -> dict[bytes, int]:
        """In which survey the copy of each of a partition's fragments is that counts."""
        row = self.rows.get(partition)
        found: dict[bytes, tuple[tuple[bool, bool, int, int], int]] = {}
        for place, survey in enumerate(self.surveys):
            held = survey.held.get(partition)
            if held is None or (row is not None and row.epoch != held):
                continue
            owns = row is not None and row.owner == survey.identity.member
            for name, stands in survey.stood.get(partition, {}).items():
                if name == STAGING:
                    continue  # of jobs that nobody will end in a new cluster
                rank = (stands.clean, owns, stands.epoch, stands.counter)
                if name not in found or rank > found[name][0]:
                    found[name] = (rank, place)
        return {name: found[name][1] for name in sorted(found)}


def together(surveys: Sequence[Survey]) -> Past:
    """All of them; they must be of one cluster."""
    counts = sorted(
        {(each.identity.partition_count, each.identity.replica_count): None for each in surveys}
    )
    clusters = sorted({view.cluster: None for each in surveys if (view := each.view)})
    if len(counts) != 1 or len(clusters) > 1:
        raise RecoveryError(
            f"these are files of several clusters: {', '.join(clusters)}; partitions and replicas"
            f" {counts}"
        )
    return Past(tuple(surveys))
