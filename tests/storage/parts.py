"""Records such as a core would write, and images that can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from holdfast.core.data_messages import FragmentStand, Mutations, Stand
from holdfast.core.effects import (
    FragmentRecord,
    MembershipRecord,
    MutationsRecord,
    Persist,
    Record,
    RowsRecord,
    StableRecord,
)
from holdfast.core.events import Image, RecoveredFragment
from holdfast.core.messages import Fragment, StableTable
from holdfast.core.states import ClusterState
from holdfast.core.stores import fragment as fragments
from holdfast.core.stores.containers import Change, HashValue, ListValue, SetValue
from holdfast.core.stores.settings import Durability, NameSettings
from holdfast.core.table import Row
from holdfast.core.views import Kind, Member, View
from holdfast.ids import Address, MemberId, PartitionId, Term, Version
from holdfast.sim.disk import Disk, _fold_data
from holdfast.storage.fold import Data
from holdfast.storage.format.manifest import Identity

PARTITIONS: Final = 5
REPLICAS: Final = 3
ME: Final = MemberId("6f0c4e3e-8f4f-4c86-8f62-1f9c52f7a001")
OTHER: Final = MemberId("6f0c4e3e-8f4f-4c86-8f62-1f9c52f7a002")
IDENTITY: Final = Identity(ME, 0, PARTITIONS, REPLICAS)
NAMES: Final = (b"always", b"everysec", b"off", b"")
KEYS: Final = tuple(b"key %d" % number for number in range(6))


def durability_of(name: bytes) -> Durability:
    """By its name."""
    return Durability(name.decode()) if name else Durability.ALWAYS


def member(member_id: MemberId, port: int) -> Member:
    """A member that is reached at this port."""
    address = Address(f"10.0.0.1:{port}")
    return Member(
        member_id, 1, f"m{port}", address, "zone", Kind.DATA, persistent=True, level_max=3
    )


def view(version: int, level: int = 3) -> View:
    """A view of two members."""
    members = (member(ME, 7380), member(OTHER, 7381))
    return View(Term(3), Version(version), ME, "cluster", level, ClusterState.ACTIVE, members)


def row(partition: int, version: int) -> Row:
    """A row with everything in it."""
    replicas = (ME, OTHER, None) if version % 2 else (OTHER, None, ME)
    return Row(PartitionId(partition), Version(version), replicas, Version(2), 3 << 10)


class Author:
    """Writes records as a member does: each fits what came before it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.names: tuple[bytes, ...] = NAMES
        self.control_share = 0.13
        self.number = 0
        self.generations: dict[PartitionId, int] = {}
        self.fragments: dict[tuple[PartitionId, bytes], fragments.Fragment] = {}
        self.held: dict[PartitionId, Fragment] = {}

    def step(self) -> list[Persist]:
        """The records of one step."""
        persists = []
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            record = self.record()
            self.number += 1
            persists.append(Persist(self.number, record))
        return persists

    def record(self) -> Record:
        """One of any kind, mostly mutations."""
        chance = self.rng.random()
        if chance < self.control_share:
            return self.control()
        if chance < 2 * self.control_share:
            return self.hold()
        return self.mutate()

    def control(self) -> Record:
        """Promises and tables."""
        rng = self.rng
        version = self.number
        kind = rng.randrange(4)
        if kind == 0:
            known = rng.choice((None, view(version), view(version, level=2)))
            return MembershipRecord(1, Term(version), known)
        if kind == 1:
            rows = tuple(row(partition, version) for partition in range(PARTITIONS))
            return RowsRecord(rows, fresh=rng.random() < 0.5)
        if kind == 2:
            return RowsRecord((row(rng.randrange(PARTITIONS), version),), fresh=False)
        rows = tuple(row(partition, version) for partition in range(PARTITIONS))
        stable = StableTable(Term(2), Version(version), rows)
        return StableRecord(rng.choice((None, stable)))

    def hold(self) -> Record:
        """Data begins, goes on, or is dropped."""
        partition = PartitionId(self.rng.randrange(PARTITIONS))
        if self.rng.random() < 0.2:
            self._begin(partition, self.generations.get(partition, 1))
            self.held.pop(partition, None)
            return FragmentRecord(partition, None)
        epoch = self.generations.get(partition, 1)
        if self.rng.random() < 0.3:
            epoch += 1
            self._begin(partition, epoch)
        self.generations[partition] = epoch
        self.held[partition] = Fragment(epoch, 0)
        return FragmentRecord(partition, self.held[partition])

    def mutate(self) -> Record:
        """A fragment changes."""
        rng = self.rng
        partition, name = PartitionId(rng.randrange(PARTITIONS)), rng.choice(self.names)
        self.generations.setdefault(partition, 1)
        fragment = self.fragments.get((partition, name))
        if fragment is None:
            fragment = fragments.Fragment(name, NameSettings(), 7)
            self.fragments[partition, name] = fragment
        for _ in range(rng.choice((0, 1, 1, 3, 20))):
            change(rng, fragment, rng.choice(KEYS))
        generation = self.generations[partition]
        return self.record_of(partition, fragment, tuple(fragment.take()), generation)

    def record_of(
        self,
        partition: PartitionId,
        fragment: fragments.Fragment,
        mutations: Mutations,
        generation: int,
    ) -> MutationsRecord:
        """Mutations, and where they lead."""
        counter = fragment.counter
        stand = FragmentStand(fragment.name, Stand(7, counter, (counter,) * 6), ((7, 0),))
        clean = counter % 5 != 0
        return MutationsRecord(
            partition, generation, fragment.name, mutations, stand, counter % 3, clean
        )

    def records(self, partition: PartitionId, size: int) -> Iterator[Record]:
        """What is in memory, for a base."""
        if partition in self.held:
            yield FragmentRecord(partition, self.held[partition])
        generation = self.generations.get(partition, 1)
        for (each, _), fragment in tuple(self.fragments.items()):
            if each == partition:
                yield self.record_of(partition, fragment, (), generation)
                for mutations in fragment.entries(size):
                    yield self.record_of(partition, fragment, tuple(mutations), generation)

    def recall(self, records: Sequence[Record]) -> None:
        """Be where these records lead: what came after them was lost."""
        self.generations, self.fragments, self.held = {}, {}, {}
        for record in records:
            match record:
                case FragmentRecord(partition=partition, fragment=None):
                    self._begin(partition, self.generations.get(partition, 1))
                    self.held.pop(partition, None)
                case FragmentRecord(partition=partition, fragment=held) if held is not None:
                    if self.generations.get(partition) != held.epoch:
                        self._begin(partition, held.epoch)
                    self.held[partition] = held
                case MutationsRecord(partition=partition, name=name):
                    self.generations[partition] = record.generation
                    fragment = self.fragments.get((partition, name))
                    if fragment is None:
                        fragment = fragments.Fragment(name, NameSettings(), 7)
                        self.fragments[partition, name] = fragment
                    for key, each in record.mutations:
                        fragment.apply(key, each)
                case _:
                    pass

    def _begin(self, partition: PartitionId, generation: int) -> None:
        self.generations[partition] = generation
        for each in tuple(self.fragments):
            if each[0] == partition:
                del self.fragments[each]


def change(rng: Random, fragment: fragments.Fragment, key: bytes) -> None:
    """One change of any kind."""
    value = fragment.records.get(key)
    kind = rng.randrange(8)
    if kind == 0:
        fragment.put(key, rng.randbytes(rng.choice((0, 3, 100))), rng.choice((0, 10**12)))
    elif kind == 1 and value is not None:
        fragment.remove(key)
    elif kind == 2 and rng.random() < 0.2:
        fragment.clear()
    elif kind == 3:
        fragment.lock(key, rng.choice((0, 5)), b"session", 10**12)
    elif kind == 4:
        held = value if isinstance(value, SetValue) else SetValue()
        fragment.change(key, held, Change.ADD, [rng.randbytes(1)])
    elif kind == 5:
        fields = value if isinstance(value, HashValue) else HashValue()
        fragment.change(key, fields, Change.SET, [rng.randbytes(1), b"x"])
    elif kind == 6:
        elements = value if isinstance(value, ListValue) else ListValue()
        fragment.change(key, elements, Change.PUSH_RIGHT, [rng.randbytes(2)])
    else:
        fragment.put(key, b"plain")


def disk_of(persists: Sequence[Persist]) -> Disk:
    """The disk of the simulator, which knows nothing of files, with these records."""
    disk = Disk()
    for number, persist in enumerate(persists, 1):
        disk.write(Persist(number, persist.record))
    disk.sync(len(persists))
    return disk


def image_of(persists: Sequence[Persist]) -> Image | None:
    """What the next process finds there."""
    return disk_of(persists).image()


def provisional_on(disk: Disk) -> object:
    """Data that is in no image, for its `FragmentRecord` may still come."""
    return {
        (partition, generation): {
            each.last.name: found_of(each.recovered()) for each in _fold_data(log)
        }
        for partition, (generation, log) in disk._data.items()
        if log and disk.fragment(partition) is None
    }


def provisional_in(data: Data) -> object:
    """The same of what was read from files."""
    return {
        (partition, generation): {name: found_of(each.recovered()) for name, each in named.items()}
        for partition, (generation, named) in data.written.items()
        if named and partition not in data.held
    }


def found_of(each: RecoveredFragment) -> object:
    """A fragment without the order of its locks."""
    return (each.partition, each.stand, each.index, each.clean, each.records, sorted(each.locks))


def comparable(image: Image | None) -> object:
    """An image without the orders that say nothing, nor the incarnation, which files know."""
    if image is None:
        return None
    found = sorted(image.data, key=lambda each: (each.partition, each.stand.name))
    return (
        image.promised,
        image.view,
        image.rows,
        image.stable,
        image.fragments,
        tuple(map(found_of, found)),
    )
