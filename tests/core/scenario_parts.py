"""What surrounds the nodes of a scenario: messages under way, and disks."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core import effects, events
from holdfast.core.messages import Fragment, Message, Origin, StableTable
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import PartitionId, Term
from tests.core import scenario_text as text


@dataclass(slots=True)
class InFlight:
    """A message under way."""

    due: int
    sender: str
    to: str
    origin: Origin
    message: Message
    held: bool = False

    def __str__(self) -> str:
        return f"{self.sender} → {self.to} {text.message(self.message)}"


@dataclass(slots=True)
class Disk:
    """What a member has on stable storage: the sum of the records that it persisted."""

    incarnation: int = 0
    promised: Term = Term(0)
    view: View | None = None
    rows: dict[PartitionId, Row] = field(default_factory=dict)
    stable: StableTable | None = None
    fragments: dict[PartitionId, Fragment] = field(default_factory=dict)

    def write(self, record: effects.Record) -> None:
        """Add a record."""
        match record:
            case effects.MembershipRecord(incarnation=incarnation, promised=promised, view=view):
                self.incarnation, self.promised, self.view = incarnation, promised, view
            case effects.RowsRecord(rows=rows, fresh=fresh):
                kept = {} if fresh else self.rows
                self.rows = {**kept, **{row.partition: row for row in rows}}
            case effects.StableRecord(stable=stable):
                self.stable = stable
            case effects.FragmentRecord(partition=partition, fragment=None):
                self.fragments.pop(partition, None)
            case effects.FragmentRecord(partition=partition, fragment=Fragment() as fragment):
                self.fragments[partition] = fragment

    def image(self) -> events.Image:
        """What the next start finds."""
        return events.Image(
            incarnation=self.incarnation,
            promised=self.promised,
            view=self.view,
            rows=tuple(self.rows.values()),
            stable=self.stable,
            fragments=tuple((p, f.epoch, f.counter) for p, f in sorted(self.fragments.items())),
        )
