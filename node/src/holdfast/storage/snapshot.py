"""Membership, table and stable table as files of their own (`design/5`, `cluster/`).

They are the sum of all control records up to the beginning of a segment, so that what comes before
it is not needed for them. The table is in the layout of the cluster's level (`format.tables`).
"""

from __future__ import annotations

from holdfast.core.config import LEVEL_MAX
from holdfast.core.messages import StableTable
from holdfast.core.table import Row
from holdfast.errors import CorruptFile
from holdfast.ids import Address, MemberId, Term, Version
from holdfast.storage import layout
from holdfast.storage.files import Readable
from holdfast.storage.fold import Control
from holdfast.storage.format import block, entries, tables
from holdfast.storage.format.entries import FileEntry, MembershipEntry
from holdfast.storage.format.manifest import ControlFiles, Identity
from holdfast.storage.format.tables import Layout, TableFile

KIND = "membership"


def contents(control: Control, identity: Identity, number: int) -> dict[str, bytes]:
    """The files, by name."""
    heading = FileEntry(
        KIND, number, identity.member, identity.partition_count, identity.replica_count
    )
    membership = MembershipEntry(control.incarnation, control.promised, control.view)
    body = entries.encode((heading, membership))
    table = table_of(control.table, control, identity)
    level = LEVEL_MAX if control.view is None else control.view.level
    found = {
        layout.membership_name(number): block.encode(
            body, count=2, sequence=1, stable=0, control=0
        ),
        layout.table_name(number): tables.encode(table, tables.layout_for(level, table)),
    }
    if control.stable is not None:
        stable = table_of(
            control.stable.rows,
            control,
            identity,
            term=control.stable.term,
            version=control.stable.version,
        )
        found[layout.stable_name(number)] = tables.encode(stable, Layout.CURRENT)
    return found


def table_of(
    rows: tuple[Row, ...], control: Control, identity: Identity, *, term: int = 0, version: int = 0
) -> TableFile:
    """A table with the addresses of its members, as far as the view has them."""
    known: tuple[tuple[MemberId, Address], ...] = ()
    if control.view is not None:
        members = (*control.view.departed, *control.view.members)
        known = tuple((member.id, member.address) for member in members)
    return TableFile(
        identity.partition_count, identity.replica_count, rows, dict(known), term, version
    )


def read(files: Readable, found: ControlFiles, identity: Identity) -> Control:
    """What these files say."""
    control = Control()
    name = layout.membership_name(found.number)
    membership = membership_in(files.read(name), name)
    control.apply(membership)
    table = read_table(files, layout.table_name(found.number), identity)
    control.rows = {row.partition: row for row in table.rows}
    if found.stable:
        stable = read_table(files, layout.stable_name(found.number), identity)
        control.stable = StableTable(Term(stable.term), Version(stable.version), stable.rows)
    return control


def membership_in(data: bytes, name: str) -> MembershipEntry:
    """The membership in a file."""
    only = block.whole(data, name)
    read_entries = entries.decode(only.body, name, only.offset)
    match read_entries:
        case [FileEntry(kind="membership"), MembershipEntry() as membership]:
            return membership
    raise CorruptFile(name, "this is no file of a membership", offset=0)


def read_table(files: Readable, name: str, identity: Identity) -> TableFile:
    """A table that fits this member."""
    table = tables.decode(files.read(name), name)
    if (table.partition_count, table.replica_count) != (
        identity.partition_count,
        identity.replica_count,
    ):
        raise CorruptFile(name, f"a table of {table.partition_count} partitions does not fit")
    return table
