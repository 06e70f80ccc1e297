"""Acknowledgements: a backup that takes a frame tells which of its copies lack something.

`design/3` §4: a write is acknowledged when every synchronous backup has it, and whoever has it
although something before it is missing is no backup at that moment. Looked at when the answer to a
new frame leaves: what the frame speaks of is whole here, as a copy of the sender's, or is doubted.
And an owner is followed only as the row says: nothing is taken from one that was replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.data_messages import BackupAck, BackupFrame
from holdfast.core.messages import Origin
from holdfast.core.node import Node
from holdfast.ids import Address, PartitionId
from holdfast.sim.checkers.watch import Change
from holdfast.sim.process import Process
from holdfast.sim.received import received_in
from holdfast.sim.world import World


@dataclass(slots=True)
class Taken:
    """A frame whose acknowledgement has not left yet."""

    origin: Origin
    frame: BackupFrame
    lacking: dict[PartitionId, str]
    """What was lacking after every step since it came. The answer is made in one of them, and may
    wait for the disk after that."""


class Acknowledgements:
    """What was received and not acknowledged yet, by sender."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._taken: dict[Process, dict[Address, Taken]] = {}
        self._done: dict[Process, dict[tuple[str, int], int]] = {}
        """How far the frames of each stay were acknowledged."""

    def stepped(self, change: Change) -> None:
        """Note frames, look at answers."""
        process, event = change.process, change.event
        if change.entered:
            self.ended(process)
        for received in received_in(event):
            if type(received.message) is BackupFrame:
                self._note(process, received.origin, received.message)
        waiting = self._taken.get(process)
        if not waiting:
            return
        for taken in waiting.values():
            if taken.lacking:
                now = _lacking(process, taken)
                taken.lacking = {p: why for p, why in taken.lacking.items() if p in now}
        for send in change.sends:
            if type(send.message) is BackupAck:
                self._look(process, send.to, send.message)

    def _note(self, process: Process, origin: Origin, frame: BackupFrame) -> None:
        done = self._done.setdefault(process, {})
        if frame.number <= done.get((origin.id, origin.incarnation), 0):
            return
        if not _is_taken(process, origin, frame):
            return
        known = self._taken.get(process, {}).get(origin.address)
        if known is not None and known.origin == origin and frame.number <= known.frame.number:
            return  # it was repeated: what was so when it came first counts
        taken = Taken(origin, frame, {})
        taken.lacking = _lacking(process, taken)
        self._taken.setdefault(process, {})[origin.address] = taken

    def _look(self, process: Process, to: Address, ack: BackupAck) -> None:
        taken = self._taken[process].get(to)
        if taken is None or ack.number < taken.frame.number:
            return
        del self._taken[process][to]
        self._done[process][taken.origin.id, taken.origin.incarnation] = ack.number
        for partition, why in taken.lacking.items():
            if partition not in ack.doubted:
                raise self.world.violation(
                    "what a copy lacks is told",
                    f"{process.name} acknowledges frame {taken.frame.number} of"
                    f" {taken.origin.id} with partition {partition}, and {why}",
                )

    def ended(self, process: Process) -> None:
        """Nothing is acknowledged any more."""
        self._taken.pop(process, None)
        self._done.pop(process, None)


def _is_taken(process: Process, origin: Origin, frame: BackupFrame) -> bool:
    """Whether it was the next one, or waits for its row. Others are repeated, or of a stream that
    ended with a stay of mine."""
    node = process.node
    assert isinstance(node, Node), "only a node with data acknowledges"
    sender = node.data.replicas.senders.get((origin.id, origin.incarnation))
    if sender is None:
        return False
    return frame.number in (sender.number, *(waiting.number for waiting in sender.waiting))


def _lacking(process: Process, taken: Taken) -> dict[PartitionId, str]:
    node = process.node
    assert isinstance(node, Node), "only a node with data acknowledges"
    spoken = [(run.partition, run.before.epoch) for run in taken.frame.runs]
    spoken += [(check.partition, check.reign) for check in taken.frame.checks]
    found = {}
    for partition, reign in spoken:
        row, holding = node.table.row(partition), node.data.holdings.get(partition)
        if row.owner != taken.origin.id or row.reign != reign:
            found[partition] = f"knows of another owner: {row}"
        elif row.index_of(node.me.id) < 1:
            continue  # nobody waits for who is no backup of it any more
        elif holding is None:
            found[partition] = "has no copy of it"
        elif holding.lacking():
            found[partition] = "its copy lacks something"
    return found
