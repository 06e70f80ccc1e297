"""All data at one member, and what follows for it from what the master publishes.

Rules (`design/3` §3)
---------------------
* What the row says counts from the moment at which the master has *published* it: an owner of a row
  that was only committed here serves nothing yet (`participation`).
* A partition that I hold without an index is fenced: it stays as it is until it is dropped, or
  until it is wanted again.
* A migration's destination that had nothing begins with empty data, *provisional* until the commit.

States: those of each `copies.Holding`.

What can go wrong
-----------------
*The migration fails.* What was provisional goes; what was here before stays, with what came to it:
it is newer, and it is fenced or a backup's as before.
*The power was gone*, and what I wrote last was not synced: I ask my backups what they have beyond
it before I lead (`pulling`), and say that writes may be lost if none of them is sure to have all.
*A migration is under way when I end.* What it brought is in my files, though not among what I
hold. It is forgotten there before anything of the same history joins it.
*I was not listed for a while.* Writes went on without me, and nothing here tells of them: what I
have is taken for current only when its owner has said so. If I am to lead before that, I say that
writes may be lost.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.context import Context
from holdfast.core.data.copies import Holding
from holdfast.core.effects import NoticeKind
from holdfast.core.events import Image
from holdfast.core.messages import Fragment
from holdfast.core.stores.fragment import Written
from holdfast.core.stores.settings import NameSettings
from holdfast.core.stores.space import INTERNAL
from holdfast.core.table import Row
from holdfast.ids import MemberId, PartitionId


class Holdings:
    """Every partition that is here, provisionally or for good."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.here: dict[PartitionId, Holding] = {}
        self._resuming: dict[PartitionId, None] = {}
        """Partitions that may be waiting for a reign to go on in."""
        self.moves = 0
        """How often a holding came or went."""
        self.written = Written()
        """What was changed here and not flushed yet."""

    def settings_of(self, name: bytes) -> NameSettings:
        """What is configured for a name; the internal one goes wherever any name goes."""
        config = self.context.config
        if name != INTERNAL:
            return config.names.get(name, config.unnamed)
        kinds = (config.unnamed, *config.names.values())
        backups = max(each.backups for each in kinds)
        asynchronous = config.copies_max - 1 - backups
        return replace(config.unnamed, backups=backups, async_backups=asynchronous)

    def get(self, partition: PartitionId) -> Holding | None:
        """What is here of a partition."""
        return self.here.get(partition)

    def begin(self, partition: PartitionId, generation: int) -> Holding:
        """Empty data of a new history, whatever was here."""
        holding = Holding(partition, self.settings_of, generation, self.written)
        self.here[partition] = holding
        self.moves += 1
        return holding

    def recover(self, image: Image) -> None:
        """What the files have: fenced, until a row says otherwise."""
        for partition, generation, _ in image.fragments:
            holding = self.begin(partition, generation)
            holding.unverified, holding.unsure = True, image.unsure
        for partition in image.damaged:
            if partition in self.here:
                self.here[partition].damaged = self.here[partition].unsure = True
        for row in image.rows:
            if row.owner == self.context.me.id and row.partition in self.here:
                holding = self.here[row.partition]
                holding.owned = row.reign
                holding.renews = not image.ended
        for found in image.data:
            self.here[found.partition].copy(found.stand.name).recover(found)

    def under(self, owner: MemberId, partition: PartitionId, reign: int) -> Holding | None:
        """What is here of a partition that this member owns in this reign, as I know the row."""
        row = self.context.table.row(partition)
        is_its = row.reign == reign and row.replicas[0] == owner
        return self.here.get(partition) if is_its else None

    def expect(self, partition: PartitionId, fragment: Fragment, index: int) -> Holding:
        """A migration is to give me this index."""
        holding = self.here.get(partition)
        if holding is None:
            self.context.forget(partition)  # what another process of mine took, and never held
        if holding is None or holding.generation != fragment.epoch:
            holding = self.begin(partition, fragment.epoch)
        holding.expect(index)
        return holding

    def unexpected(self, partition: PartitionId) -> None:
        """The migration that was to give me an index is over without success."""
        holding = self.here.get(partition)
        if holding is None:
            return
        holding.unexpected()
        if partition not in self.context.fragments:
            del self.here[partition]
            self.moves += 1
            self.context.forget(partition)
        else:
            self.tidy(holding)

    def published(self, row: Row) -> None:
        """The master has decided this row, and what I hold of it is settled."""
        holding = self.here.get(row.partition)
        if holding is None:
            return
        index = row.index_of(self.context.me.id)
        if index == 0:
            self._lead(holding, row)
        elif index != holding.index or holding.reign or holding.resuming:
            holding.follow(index)
            self.tidy(holding)

    def tidy(self, holding: Holding) -> None:
        """Have nothing that is not for my index."""
        for copy in holding.superfluous():
            self.context.persist_mutations(holding.forget(copy.name))

    def _lead(self, holding: Holding, row: Row) -> None:
        if not holding.may_lead(row.reign):
            holding.resuming = True
            self._resuming[row.partition] = None
        elif holding.reign != row.reign:
            missing = self._missing(holding, row)
            if missing:
                self.context.notice(NoticeKind.WRITES_LOST, f"partition {row.partition}", missing)
            holding.lead(row.reign)

    def _missing(self, holding: Holding, row: Row) -> str:
        """Why what I have may not be all that was acknowledged; empty when it is."""
        if holding.unvouched and not holding.damaged:
            return "what I wrote last may not be on my disk, and nobody who has all of it was there"
        if holding.damaged:
            return "my files were damaged, and nobody could be asked before I had to lead"
        if holding.reign or holding.resuming or row.reign in (holding.generation, holding.owned):
            return ""
        if holding.lacking():
            return "my copy was not in sync when its owner went"
        kinds = (self.context.config.unnamed, *self.context.config.names.values())
        if holding.index < 0 or any(each.copies <= holding.index for each in kinds):
            return f"nobody is left who had every name; I was at index {holding.index}"
        return ""

    def unsettled(self) -> bool:
        """Whether files may still lack something that nobody has been asked for."""
        return any(holding.unsettled for holding in self.here.values())

    def resumes(self) -> tuple[tuple[PartitionId, int], ...]:
        """Partitions that are mine, in a reign that began before a restart: a backup may have what
        I wrote last, and my files may not, so I must not number anything in it again."""
        if not self._resuming:
            return ()
        over = [place for place in self._resuming if not self._is_resuming(place)]
        for place in over:
            del self._resuming[place]
        rows = map(self.context.table.row, self._resuming)
        return tuple(
            (row.partition, row.reign)
            for row in rows
            if row.owner == self.context.me.id and not self.here[row.partition].recalls
        )

    def _is_resuming(self, partition: PartitionId) -> bool:
        holding = self.here.get(partition)
        return holding is not None and holding.resuming

    def drop(self, partition: PartitionId) -> None:
        """Have it no more."""
        self.here.pop(partition, None)
        self.moves += 1

    def reset(self) -> None:
        """A new stay begins: no migration is under way, and what I did not own may be out of date:
        while I was not listed, nobody waited for me."""
        for partition in tuple(self.here):
            self.unexpected(partition)
        for holding in self.here.values():
            holding.unverified |= not holding.reign
