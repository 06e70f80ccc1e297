"""The sum of the records that a member persisted, for the harness and for scenarios."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    MutationsRecord,
    Record,
    RowsRecord,
    StableRecord,
)
from holdfast.core.events import Image
from holdfast.core.messages import Fragment, StableTable
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import PartitionId, Term
from holdfast.sim.disk import Written


@dataclass(slots=True)
class Disk:
    """What a member has on stable storage."""

    incarnation: int = 0
    promised: Term = Term(0)
    view: View | None = None
    rows: dict[PartitionId, Row] = field(default_factory=dict)
    stable: StableTable | None = None
    fragments: dict[PartitionId, Fragment] = field(default_factory=dict)
    data: dict[PartitionId, dict[bytes, Written]] = field(default_factory=dict)
    """Of the history that `generations` names, by fragment."""
    generations: dict[PartitionId, int] = field(default_factory=dict)

    def write(self, record: Record) -> None:
        """One more record."""
        match record:
            case MembershipRecord(incarnation=incarnation, promised=promised, view=view):
                self.incarnation, self.promised, self.view = incarnation, promised, view
            case RowsRecord(rows=rows, fresh=fresh):
                kept = {} if fresh else self.rows
                self.rows = {**kept, **{row.partition: row for row in rows}}
            case StableRecord(stable=stable):
                self.stable = stable
            case FragmentRecord(partition=partition, fragment=None):
                self.fragments.pop(partition, None)
                self.data.pop(partition, None)
            case FragmentRecord(partition=partition, fragment=Fragment() as fragment):
                self.fragments[partition] = fragment
                self._begin(partition, fragment.epoch)
            case MutationsRecord(partition=partition, generation=generation, name=name):
                self._begin(partition, generation)
                self.data[partition].setdefault(name, Written(record)).add(record)

    def copied(self) -> Self:
        """As it is now, whatever is written to this one later."""
        data = {
            partition: {name: _copied(written) for name, written in named.items()}
            for partition, named in self.data.items()
        }
        return replace(
            self,
            rows=dict(self.rows),
            fragments=dict(self.fragments),
            generations=dict(self.generations),
            data=data,
        )

    def _begin(self, partition: PartitionId, generation: int) -> None:
        """What there is of another history is over."""
        if self.generations.get(partition) != generation:
            self.data.pop(partition, None)
        self.generations[partition] = generation
        self.data.setdefault(partition, {})

    def image(self) -> Image:
        """What a process finds when it starts."""
        return Image(
            incarnation=self.incarnation,
            promised=self.promised,
            view=self.view,
            rows=tuple(self.rows.values()),
            stable=self.stable,
            fragments=tuple((p, f.epoch, f.counter) for p, f in sorted(self.fragments.items())),
            data=tuple(
                written.recovered()
                for partition in sorted(self.fragments)
                for written in self.data.get(partition, {}).values()
            ),
        )


def _copied(written: Written) -> Written:
    """The same content in a fragment of its own."""
    again = Written(written.last)
    found = written.recovered()
    for key, record in (*found.records.items(), *found.locks):
        again.fragment.apply(key, record)
    return again
