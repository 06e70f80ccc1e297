"""A command of several keys, taken apart by partition; and its replies, put together again.

Each part is a command of its own, with the keys of one partition only and what belongs to each of
them; `Gather` says how the replies become one. Parts are independent: the whole is not atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.core.stores.command import Command, Gather
from holdfast.core.stores.replies import OK, array, integer
from holdfast.ids import PartitionId

Places = dict[PartitionId, list[int]]
"""By partition: which of the command's keys live there, as the how manieth they are."""
Part = tuple[PartitionId, list[bytes]]
"""A partition, and the command for it."""
Combine = Callable[[list[bytes]], bytes]


def places_of(keys: Iterable[bytes], partition_of: Callable[[bytes], PartitionId]) -> Places:
    """Which keys live where, in the order in which the partitions come."""
    places: Places = {}
    for place, key in enumerate(keys):
        places.setdefault(partition_of(key), []).append(place)
    return places


def taken_apart(command: Command, args: list[bytes], places: Places) -> tuple[list[Part], Combine]:
    """The command of each partition, and how the replies become one."""
    first, _, step = command.keys
    count = len(command.key_indexes(len(args)))
    parts: list[Part] = []
    for partition, mine in places.items():
        own = [args[0]]
        for place in mine:
            start = first + place * step
            own += args[start : start + step]
        parts.append((partition, own))

    def in_order(replies: list[bytes]) -> bytes:
        items = [b""] * count
        for mine, reply in zip(places.values(), replies, strict=True):
            for place, item in zip(mine, split_array(reply), strict=True):
                items[place] = item
        return array(items)

    combine = {Gather.SUM: total, Gather.ITEMS: in_order, Gather.OK: lambda _: OK}[command.gather]
    return parts, combine


def joined(replies: Iterable[bytes]) -> bytes:
    """Arrays, one after the other."""
    return array([item for reply in replies for item in split_array(reply)])


def total(replies: Iterable[bytes]) -> bytes:
    """Integers, added."""
    return integer(sum(int(reply[1:-2]) for reply in replies))


def split_bulks(reply: bytes) -> list[bytes]:
    """What the byte strings of an array say."""
    return [item[item.index(b"\r\n") + 2 : -2] for item in split_array(reply)]


def split_array(reply: bytes) -> list[bytes]:
    """The items of an array of byte strings and nulls, encoded as they are."""
    at = reply.index(b"\r\n") + 2
    items = []
    while at < len(reply):
        end = reply.index(b"\r\n", at) + 2
        if reply[at : at + 1] == b"$" and reply[at + 1 : at + 2] != b"-":
            end += int(reply[at + 1 : end - 2]) + 2
        items.append(reply[at:end])
        at = end
    return items
