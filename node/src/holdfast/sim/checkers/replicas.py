"""After the faults: every copy that counts equals the owner's, and nothing is left under way.

Asked now and then, like `quiet`: a reason for everything that is not so yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.data.copies import Holding
from holdfast.core.node import Node
from holdfast.core.table import Row
from holdfast.ids import MemberId
from holdfast.sim.process import Process
from holdfast.sim.world import World


def unequal(world: World) -> Iterator[str]:
    """What is under way, and which copies differ."""
    here: dict[MemberId, Process] = {process.member.id: process for process in world.processes}
    for process in world.processes:
        yield from _under_way(process)
    rows = next((each.node.table.rows for each in world.processes if each.node.is_master), ())
    for row in rows:
        yield from _row_unequal(row, here)


def _under_way(process: Process) -> Iterator[str]:
    node = process.node
    if not isinstance(node, Node):
        return
    data = node.data
    if data.giving.gifts:
        yield f"{process.name} holds permits for {sorted(data.giving.gifts)}"
    if data.pulling.pulls:
        yield f"{process.name} pulls {sorted(data.pulling.pulls)}"
    if data.replication.barriers:
        yield f"{process.name} has barriers on {sorted(data.replication.barriers)}"
    if data.desk.writing:
        yield f"{process.name} has keys in flight: {sorted(data.desk.writing)[:3]}"
    for holding in data.holdings.here.values():
        if holding.index > 0 and holding.lacking():
            yield f"{process.name} lacks something of partition {holding.partition}"
        if holding.copies and any(copy.fragment.pending for copy in holding):
            yield f"{process.name} has mutations of {holding.partition} that went nowhere"


def _row_unequal(row: Row, here: dict[MemberId, Process]) -> Iterator[str]:
    owner = _holding_of(row.owner, row, here)
    if owner is None:
        return
    for index, member in enumerate(row.replicas):
        backup = _holding_of(member, row, here)
        if not index or backup is None:
            continue
        for copy in owner:
            if not copy.goes_to(index):
                continue
            theirs = backup.copies.get(copy.name)
            mine = contents(owner, copy.name)
            if mine != ({} if theirs is None else contents(backup, copy.name)):
                yield (
                    f"partition {row.partition}, {copy.name.decode() or 'internal'}: what"
                    f" {here[member].name} has at index {index} differs"  # type: ignore[index]
                )


def _holding_of(member: MemberId | None, row: Row, here: dict[MemberId, Process]) -> Holding | None:
    process = None if member is None else here.get(member)
    if process is None or not isinstance(process.node, Node):
        return None
    return process.node.data.holdings.get(row.partition)


def contents(holding: Holding, name: bytes) -> dict[bytes, bytes]:
    """Everything in a fragment, as records; locks by names of their own."""
    fragment = holding.copies[name].fragment
    found = {b"value " + key: fragment.record_of(key) for key in fragment.records}
    found.update({b"lock " + key: fragment.lock_record(key) for key in fragment.locks})
    return found
