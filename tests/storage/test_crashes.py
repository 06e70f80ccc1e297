"""A member's files under crashes: whatever was promised is found, and what is found is a prefix.

The engine runs without its thread, on a disk that keeps what was synced and of the rest what it
likes (`fake_files`). Whenever the writer lets others write, somebody does. The model is the list of
all records: after a crash the image must be that of some prefix of it, not shorter than what was
promised to survive such a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from random import Random
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.core.effects import MutationsRecord, Persist
from holdfast.core.events import Image, RecoveredFragment
from holdfast.core.stores.settings import Durability
from holdfast.errors import CorruptFile, DiskFailed, StorageError
from holdfast.ids import PartitionId
from holdfast.storage import layout
from holdfast.storage.engine import FileEngine
from holdfast.storage.recovery import OnDamage, recover
from holdfast.storage.writer import Limits, Writer
from tests.storage.fake_files import Crash, FakeFiles
from tests.storage.parts import (
    IDENTITY,
    Author,
    comparable,
    disk_of,
    durability_of,
    found_of,
    image_of,
    provisional_in,
    provisional_on,
)

Found = tuple[Image | None, object]
"""An image, and data that is in none."""

SMALL: Final = Limits(
    segment_bytes=4_000, log_bytes_min=8_000, base_bytes=3_000, slice_bytes=200, reserve_bytes=0
)


class Member:
    """One member: its disk, what it wrote, what of it must survive."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.limits = replace(SMALL, segment_bytes=(4_000, 300)[seed % 2])
        self.files = FakeFiles()
        self.author = Author(self.rng)
        if seed % 3 == 0:  # long stretches in which nothing asks for a sync
            self.author.names, self.author.control_share = (b"everysec", b"off"), 0.02
        self.steps: list[list[Persist]] = []
        self.numbers: list[int] = []
        """The number of the last record of each step of this process."""
        self.before = 0
        """Steps of earlier processes."""
        self.incarnation = 0
        self.now = 0.0
        self.pauses: tuple[float, ...] = (0.001, 0.1, 1.1)
        self.stable = 0
        """Steps that survive a loss of power."""
        self.safe = 0
        """Steps that survive the end of the process."""
        self.bases = 0
        self.beside = 0
        """Steps that were written while the writer was at something else."""
        self.synced_beside = 0
        """And synced by whoever wrote them."""
        self.start()

    def start(self) -> Found:
        """The next process, and what it finds."""
        self.engine = FileEngine(
            self.files, IDENTITY, durability_of=durability_of, limits=self.limits
        )
        found = recover(self.files)
        hidden = {} if found is None else provisional_in(found.fold.data)
        image = self.engine.recover()
        self.incarnation = self.engine.last_incarnation + 1
        self.writer: Writer = self.engine.open(self.incarnation)
        self.writer.aside = self.aside
        self.before = len(self.steps)
        self.author.number, self.numbers = 0, []
        return image, hidden

    def write(self) -> None:
        """A step, given to the writer."""
        self.engine.write(self.step())

    def step(self) -> list[Persist]:
        """The next one."""
        step = self.author.step()
        self.steps.append(step)
        self.numbers.append(step[-1].sequence)
        return step

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The writer is at something that takes long: others write before and after it."""
        self.write_beside()
        yield
        self.write_beside()

    def write_beside(self) -> None:
        """Perhaps: at once, if it may overtake what waits."""
        if self.rng.random() < 0.5:
            return
        bodies = tuple(self.engine.packer.bodies_of(self.step()))
        taken = self.engine._take(self.writer, bodies)
        if taken is None:
            self.engine._waiting.extend(bodies)
        else:
            self.writer.write_now(taken, self.now)
            self.beside += 1
            if self.writer.may_sync_now(self.now) and self.rng.random() < 0.5:
                self.writer.sync_now()
                self.synced_beside += 1
            self.note()

    def work(self) -> None:
        """A round of the writer; then what it promises is noted."""
        self.now += self.rng.choice(self.pauses)
        waiting, self.engine._waiting = self.engine._waiting, []
        self.writer.work(waiting, self.now)
        self.bases = max(self.bases, self.writer.bases_done)
        self.note()
        if self.writer.log.idle:
            written = self.writer.commit.written
            self.stable = self.before + sum(each <= written for each in self.numbers)

    def note(self) -> None:
        """What is promised by now."""
        self.safe = self.before + sum(each <= self.writer.promised for each in self.numbers)
        for place, step in enumerate(self.steps[: self.safe]):
            if place >= self.stable and is_urgent(step):
                self.stable = place + 1

    def serve(self) -> None:
        """A slice of a base."""
        self.engine.serve(self.author)

    def crash(self) -> None:
        """The power is gone, then back; what is found goes on."""
        self.files = self.files.crashed(self.rng)
        self.again(self.stable)

    def kill(self) -> None:
        """Only the process is gone."""
        self.files.crash_at = None
        self.again(self.safe)

    def again(self, least: int) -> None:
        """The next process must find what was promised, and nothing that never was."""
        kept = prefix_of(self.steps, self.start(), least)
        self.steps = self.steps[:kept]
        self.before = self.stable = self.safe = kept
        replay(self.author, self.steps)


def is_urgent(step: Sequence[Persist]) -> bool:
    """Whether anything in it is called persisted only once it is on stable storage."""
    return any(
        not isinstance(each.record, MutationsRecord)
        or durability_of(each.record.name) is Durability.ALWAYS
        for each in step
    )


def prefix_of(steps: Sequence[Sequence[Persist]], found: Found, least: int) -> int:
    """How many steps were found."""
    image, hidden = comparable(found[0]), found[1]
    for kept in range(len(steps), least - 1, -1):
        disk = disk_of([each for step in steps[:kept] for each in step])
        if comparable(disk.image()) == image and provisional_on(disk) == hidden:
            return kept
    raise AssertionError(f"the image is of no prefix of {least} to {len(steps)} steps")


def replay(author: Author, steps: Sequence[Sequence[Persist]]) -> None:
    """The author goes on from what was kept."""
    author.recall([each.record for step in steps for each in step])


@pytest.mark.parametrize("seed", range(30))
def test_a_crash_after_any_step_keeps_a_prefix(seed: int) -> None:
    member = Member(seed)
    for _ in range(12):
        for _ in range(member.rng.randrange(12)):
            member.write()
            if member.rng.random() < 0.6:
                member.work()
            member.serve()
        if member.rng.random() < 0.5:
            member.crash()
        else:
            member.kill()


def test_the_crashes_of_these_tests_find_bases_at_work() -> None:
    member = Member(2)
    for _ in range(300):
        member.write()
        member.work()
        member.serve()
    assert member.bases > 3
    assert member.beside > 50
    assert len(member.writer.log.manifest.segments) < 20
    member.writer.aside = nullcontext
    member.work()
    count = len(member.steps)
    member.kill()
    assert len(member.steps) == count >= 300 + member.beside


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_a_base_never_knows_more_than_the_log(seed: int) -> None:
    """1. Nothing asks for a sync, and no time passes. 2. A base is named. 3. The power goes."""
    member = Member(seed)
    member.pauses = (0.0,)
    for _ in range(600):
        done = member.writer.bases_done
        member.write()
        member.serve()
        member.work()
        if member.writer.bases_done > done:
            member.crash()
            return
    raise AssertionError("no base was ever due")


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_every_operation_keeps_a_prefix(seed: int) -> None:
    """1. A fixed run, with rolls and bases. 2. The same again, once for each operation of the disk,
    which never happens. 3. What is found is a prefix, and has what was promised before."""
    total = run(Member(seed), None)
    for at in range(1, total + 1, 1 + total // 120):
        member = Member(seed)
        begun = member.files.operations
        if at > begun:
            member.files.crash_at = at
            run(member, Crash)
        member.crash()


def run(member: Member, ends: type[BaseException] | None) -> int:
    """A fixed run; how many operations it takes, or until it ends so."""
    try:
        for _ in range(60):
            member.write()
            member.work()
            member.serve()
            member.serve()
        member.writer.aside = nullcontext  # who ends writes no more
        member.writer.close(member.now)
    except Crash:
        assert ends is Crash
    return member.files.operations


class Life(RuleBasedStateMachine):
    """Anything in any order."""

    member: Member

    @initialize(seed=st.integers(0, 10_000))
    def begin(self, seed: int) -> None:
        self.member = Member(seed)

    @rule(count=st.integers(1, 6))
    def write(self, count: int) -> None:
        for _ in range(count):
            self.member.write()

    @rule()
    def work(self) -> None:
        self.member.work()

    @rule(count=st.integers(1, 5))
    def serve(self, count: int) -> None:
        for _ in range(count):
            self.member.serve()
            self.member.work()

    @rule(after=st.integers(1, 12))
    def crash(self, after: int) -> None:
        """Some operations later, within whatever is being done."""
        member = self.member
        member.files.crash_at = member.files.operations + after
        with suppress(Crash):
            for _ in range(5):
                member.write()
                member.work()
                member.serve()
        member.crash()

    @rule()
    def kill(self) -> None:
        self.member.kill()

    @rule(room=st.integers(0, 3_000))
    def run_out_of_room(self, room: int) -> None:
        """Until somebody makes room, nothing is promised, and then everything."""
        member = self.member
        used = sum(len(each.data) for each in member.files.names.values())
        member.files.capacity = used + room
        for _ in range(4):
            member.write()
            member.work()
            member.serve()
        member.files.capacity = 1 << 40
        member.now += 2
        member.writer.aside = nullcontext
        member.work()
        member.work()
        member.writer.aside = member.aside
        assert member.safe == len(member.steps)

    @invariant()
    def promises_grow(self) -> None:
        assert self.member.stable <= self.member.safe <= len(self.member.steps)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_a_failed_sync_is_final() -> None:
    member = Member(5)
    member.writer.aside = nullcontext
    while not member.writer.commit.promised:
        member.write()
        member.work()
    member.files.sync_fails = True
    member.write()
    member.now += 2
    with pytest.raises(DiskFailed, match="fsync failed"):
        member.work()
    member.files.sync_fails = False
    promised = member.writer.promised
    member.crash()
    assert promised <= sum(len(step) for step in member.steps)


# Damage -------------------------------------------------------------------------------------------


def written(seed: int) -> Member:
    """A member that wrote a while, and ended well."""
    member = Member(seed)
    for _ in range(120):
        member.write()
        member.work()
        member.serve()
        member.work()
    member.writer.aside = nullcontext
    member.work()
    member.writer.close(member.now)
    return member


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_bit_is_found_wherever_it_is(seed: int) -> None:
    """But in the very last block, with which a process ends: it says nothing."""
    member = written(seed % 4)
    rng = Random(seed)
    whole = comparable(image_of([each for step in member.steps for each in step]))
    name = rng.choice(sorted(member.files.names))
    content = member.files.names[name].data
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    engine = FileEngine(member.files, IDENTITY, durability_of=durability_of)
    try:
        image = engine.recover()
    except StorageError as error:
        blamed = error.file
    else:
        assert comparable(image) == whole
        return
    assert blamed == name


@pytest.mark.parametrize("seed", range(60))
def test_doubted_damage_is_never_taken_for_clean(seed: int) -> None:
    """Every fragment that is called clean is as it was written."""
    member = written(seed % 4)
    rng = Random(seed)
    logs = [name for name in sorted(member.files.names) if name.endswith((".log", ".base"))]
    content = member.files.names[rng.choice(logs)].data
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    engine = FileEngine(
        member.files, IDENTITY, durability_of=durability_of, on_damage=OnDamage.DOUBT
    )
    whole = image_of([each for step in member.steps for each in step])
    assert whole is not None
    try:
        image = engine.recover()
    except CorruptFile:
        return
    assert image is not None
    assert image.fragments == whole.fragments
    true = {(each.partition, each.stand.name): each for each in whole.data}
    for each in image.data:
        assert each.clean or each.partition in image.damaged or not true_clean(true, each)
        if each.clean:
            assert found_of(each) == found_of(true[each.partition, each.stand.name])
    assert (image.promised, image.view, image.rows) == (whole.promised, whole.view, whole.rows)


def test_what_stands_behind_damage_at_the_end_of_the_log_is_kept() -> None:
    """1. The log ends in two segments. 2. A block of the older one rots that later ones call
    stable: all that follows is read nevertheless, and nothing is cut."""
    member = Member(2)
    member.writer.aside = nullcontext
    member.author.names, member.author.control_share = (b"always",), 0.0
    for _ in range(3):
        member.write()
        member.work()
    log = member.writer.log
    older = layout.segment_name(log.segment)
    assert log.roll()
    for _ in range(3):
        bodies = tuple(member.engine.packer.bodies_of(member.step()))
        member.writer.write_now(bodies, member.now)
        log.sync()
    content = member.files.names[older].data
    content[-1] ^= 1
    with pytest.raises(CorruptFile, match=older):
        recover(member.files)
    found = recover(member.files, on_damage=OnDamage.DOUBT)
    assert found is not None
    assert (found.sequence, found.torn_bytes) == (log.sequence, 0)
    assert found.manifest.segments[-1] == log.segment
    assert found.damages


def true_clean(
    true: Mapping[tuple[PartitionId, bytes], RecoveredFragment], each: RecoveredFragment
) -> bool:
    """Whether it was clean when it was written."""
    return true[each.partition, each.stand.name].clean
