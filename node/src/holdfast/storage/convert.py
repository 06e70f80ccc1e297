"""Files of one cluster become those of another: other members, another number of partitions.

Rules (seed 003, "Move files to start new cluster"; `design/5`, "Restore")
--------------------------------------------------------------------------
* Which copy of a partition counts, of all that the old files have, is said in `past`.
* Keys find their partition by their slot, their fragment by their name, as with a first write. So
  what was crowded together in one partition may not be in another, and the other way round.
* Each new partition begins a history of its own, at an epoch and a count that nothing in the old
  files reached: versions of records stay, and everything that comes is later.
* Every member of the new cluster gets the same view, term and table. They start like any cluster
  that comes back from its files.
* It takes as much memory as a group of partitions (`outline`), however much there is: the sources
  are read twice, and what counts of them is written twice.
* The sources are only read. They may be backups, also incremental ones: each file is read where it
  is (`backup.BackupFiles`), or parts in a depot (`depot.DepotFiles`).
* Where the cluster's identity is given, all else follows from it and from the sources. So each new
  member can make its own files, and nobody else's, and they fit those of the others.
* It is done in steps, each in any process that reaches the files: `convert` does them one after the
  other here, the pipeline as tasks of a job.

Steps
-----
    survey ──► plan ──► begin ──► spill ──► write ──► finish
    a source   once     once      a source  a group   once

Nothing is at its place before the end: until then all stands in one folder of the target, which
goes if anything goes wrong.

What can go wrong
-----------------
*A partition is in none of the sources.* That is refused, with the partitions that are missing,
unless it is said that this may be.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.core.assignment import Candidate, assign_now
from holdfast.core.config import LEVEL_MAX
from holdfast.core.data.gates import partitions_of_slots
from holdfast.core.data.plane import slot_of
from holdfast.core.states import ClusterState
from holdfast.core.stores.settings import NameSettings
from holdfast.core.stores.space import INTERNAL, Space
from holdfast.core.table import Row
from holdfast.core.views import Kind, Member, View
from holdfast.errors import IllegalArgument, StorageError
from holdfast.ids import REPLICA_COUNT_MAX, Address, MemberId, PartitionId, Replicas, Version
from holdfast.storage import fresh
from holdfast.storage.backup import files_at
from holdfast.storage.files import Readable, sync_directory
from holdfast.storage.fresh import Beginning, Made
from holdfast.storage.outline import GROUP_BYTES
from holdfast.storage.past import Past, surveyed, together
from holdfast.storage.recovery import Watch, no_collections
from holdfast.storage.sorting import Sorting, forget, fragments_in, sorting_of, spill

SETTINGS: Final = NameSettings(journal_entries=0)
FOLDER: Final = ".convert"
SPILLED: Final = "spilled"
MEMBER_PORT: Final = 7380


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A member of the new cluster."""

    name: str
    address: Address
    group: str


def newcomers_of(texts: Sequence[str]) -> tuple[Newcomer, ...]:
    """New members as they are given on a command line."""
    newcomers = tuple(map(newcomer_of, texts))
    if len(frozenset(each.name for each in newcomers)) < len(newcomers):
        raise IllegalArgument("two of the new members have the same name")
    return newcomers


def newcomer_of(text: str) -> Newcomer:
    """A new member as it is given."""
    name, *rest = text.split("=")
    if not name or len(rest) > 2 or "/" in name or not name.isprintable():
        raise IllegalArgument(f"{text!r} is no NAME, NAME=HOST:PORT or NAME=HOST:PORT=GROUP")
    address = rest[0] if rest and rest[0] else f"{name}:{MEMBER_PORT}"
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise IllegalArgument(f"{address!r} is no host:port")
    return Newcomer(name, Address(address), rest[1] if len(rest) == 2 else name)


Source = Path | Readable
"""Where one member's files are."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the work: of a cluster whose identity is known, the files of some members."""

    cluster: str
    """Its identity: a UUID."""
    members: frozenset[str]
    """By their names."""


ALL: Final = None
"""Files of every member, of a cluster with a new identity."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the new cluster is to be like."""

    newcomers: tuple[Newcomer, ...]
    partition_count: int
    replica_count: int = REPLICA_COUNT_MAX
    copies: int = REPLICA_COUNT_MAX
    """How many holders of a partition get its data. The others, as far as the settings of a name
    ask for more, get it from the owner once they run."""
    level: int = LEVEL_MAX
    share: Share | None = ALL


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before any data is moved."""

    folder: Path
    """Where it is made; its parent is where the members' directories will be."""
    beginning: Beginning
    sorting: Sorting


@dataclass(frozen=True, slots=True)
class Converted:
    """What was made."""

    cluster: str
    members: Mapping[str, MemberId]
    keys: int
    locks: int
    missing: tuple[int, ...]
    """Partitions of which no source had anything."""
    bytes: int = 0
    """Of data in the new files."""


def convert(
    sources: Sequence[Source],
    target: Path,
    newcomers: Sequence[Newcomer],
    *,
    partition_count: int,
    replica_count: int,
    copies: int = REPLICA_COUNT_MAX,
    missing_allowed: bool = False,
    watch: Watch | None = None,
    group_bytes: int = GROUP_BYTES,
    level: int = LEVEL_MAX,
    share: Share | None = ALL,
) -> Converted:
    """Read all of the sources, and write a directory for each new member, or for those of a
    share."""
    refuse_if_used(target)
    shape = Shape(tuple(newcomers), partition_count, replica_count, copies, level, share)
    files = [files_at(each) if isinstance(each, Path) else each for each in sources]
    pairs = zip(files, sources, strict=True)
    past = together([surveyed(each, str(source), watch) for each, source in pairs])
    plan = plan_of(past, target, shape, missing_allowed=missing_allowed, group_bytes=group_bytes)
    with workplace(plan):
        sizes = [spill(plan.sorting, place, each, watch) for place, each in enumerate(files)]
        made = []
        for number, spilled in enumerate(zip(*sizes, strict=True)):
            made.append(write(plan, number, spilled))
            forget(plan.sorting, number)
        return finish(plan, made)


# Planning -----------------------------------------------------------------------------------------


def refuse_if_used(target: Path) -> None:
    """Nothing is overwritten."""
    if target.exists() and any(target.iterdir()):
        raise StorageError(str(target), "it is not empty: each new cluster gets a directory")


def plan_of(
    past: Past,
    target: Path,
    shape: Shape,
    *,
    missing_allowed: bool = False,
    group_bytes: int = GROUP_BYTES,
) -> Plan:
    """Who will hold what, and what is made of what."""
    share = shape.share
    cluster = str(uuid.uuid4() if share is None else uuid.UUID(share.cluster))
    members = tuple(member_of(each, cluster) for each in shape.newcomers)
    rows = table_of(members, shape.partition_count, shape.replica_count, past.epoch)
    view = View(
        past.term, Version(1), members[0].id, cluster, shape.level, ClusterState.ACTIVE, members
    )
    made = tuple(each for each in members if share is None or each.name in share.members)
    beginning = Beginning(view, rows, past.epoch, past.count, shape.copies, made)
    folder = target / f"{FOLDER}-{cluster}"
    sorting = sorting_of(
        past,
        folder / SPILLED,
        shape.partition_count,
        wanted=beginning.wanted,
        missing_allowed=missing_allowed,
        group_bytes=group_bytes,
    )
    return Plan(folder, beginning, sorting)


def member_of(newcomer: Newcomer, cluster: str) -> Member:
    """A member that is expected to come with its files; who it is follows from its cluster."""
    return Member(
        MemberId(str(uuid.uuid5(uuid.UUID(cluster), newcomer.name))),
        1,
        newcomer.name,
        newcomer.address,
        newcomer.group,
        Kind.DATA,
        persistent=True,
        level_max=LEVEL_MAX,
    )


def table_of(
    members: Sequence[Member], partition_count: int, replica_count: int, epoch: int
) -> tuple[Row, ...]:
    """A fresh assignment."""
    candidates = [Candidate(member.id, member.group) for member in members]
    vacant: Replicas = (None,) * replica_count
    assigned = assign_now(candidates, [vacant] * partition_count, replica_count)
    return tuple(
        Row(PartitionId(number), Version(1), replicas, Version(epoch), epoch)
        for number, replicas in enumerate(assigned)
    )


# Carrying it out ----------------------------------------------------------------------------------


@contextmanager
def workplace(plan: Plan) -> Iterator[None]:
    """Have the folder in which everything is made; whatever comes, it is gone at the end."""
    target = plan.folder.parent
    there = target.exists()
    plan.sorting.folder.mkdir(parents=True)
    try:
        fresh.begin(plan.folder, plan.beginning)
        yield
    finally:
        shutil.rmtree(plan.folder, ignore_errors=True)
        if not there and not any(target.iterdir()):
            target.rmdir()


def write(plan: Plan, number: int, sizes: Sequence[int]) -> Made:
    """Make one group of partitions of what was spilled for it, so much of each source."""
    with no_collections():
        return fresh.write(plan.folder, plan.beginning, spaces_of(plan, number, sizes))


def spaces_of(plan: Plan, number: int, sizes: Sequence[int]) -> dict[PartitionId, Space]:
    """Every key of a group in its new place, as far as anyone here is to have it."""
    partitions = partitions_of_slots(len(plan.beginning.rows))
    wanted, epoch = plan.beginning.wanted, plan.beginning.epoch
    group = [each for each in plan.sorting.groups[number] if each in wanted]
    spaces = {each: Space(lambda _: SETTINGS, epoch) for each in group}
    if not spaces:
        return spaces
    for name, written in fragments_in(plan.sorting, number, sizes):
        for key, record in written.entries():
            space = spaces.get(partitions[slot_of(key)])
            if space is None:
                continue
            fragment = space.internal if name == INTERNAL else space.home(key)
            fragment.apply(key, record)
    return spaces


def finish(plan: Plan, made: Sequence[Made]) -> Converted:
    """Give the members' directories their names."""
    fresh.end(plan.folder, plan.beginning, made)
    target, members = plan.folder.parent, plan.beginning.view.members
    for each in plan.beginning.members:
        (plan.folder / each.name).rename(target / each.name)
    sync_directory(target)
    return Converted(
        plan.beginning.view.cluster,
        {each.name: each.id for each in members},
        sum(each.keys for each in made),
        sum(each.locks for each in made),
        plan.sorting.past.missing(),
        sum(each.bytes for each in made),
    )
