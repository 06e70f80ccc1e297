"""The sum of the records that a member persisted, for the harness."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    Record,
    RowsRecord,
    StableRecord,
)
from holdfast.core.events import (
    Image,
)
from holdfast.core.messages import (
    Fragment,
    StableTable,
)
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import PartitionId, Term


@dataclass
class Disk:
    """The sum of the records that a member persisted."""

    incarnation: int = 0
    promised: Term = Term(0)
    view: View | None = None
    rows: dict[PartitionId, Row] = field(default_factory=dict)
    stable: StableTable | None = None
    fragments: dict[PartitionId, Fragment] = field(default_factory=dict)

    def write(self, record: Record) -> None:
        """One more record."""
        if isinstance(record, MembershipRecord):
            self.incarnation, self.promised = record.incarnation, record.promised
            self.view = record.view
        elif isinstance(record, RowsRecord):
            if record.fresh:
                self.rows = {}
            self.rows.update({row.partition: row for row in record.rows})
        elif isinstance(record, StableRecord):
            self.stable = record.stable
        else:
            self._fragment(record)

    def _fragment(self, record: FragmentRecord) -> None:
        if record.fragment is None:
            self.fragments.pop(record.partition, None)
        else:
            self.fragments[record.partition] = record.fragment

    def image(self) -> Image:
        """What a process finds when it starts."""
        return Image(
            incarnation=self.incarnation,
            promised=self.promised,
            view=self.view,
            rows=tuple(self.rows.values()),
            stable=self.stable,
            fragments=tuple((p, f.epoch, f.counter) for p, f in self.fragments.items()),
        )
