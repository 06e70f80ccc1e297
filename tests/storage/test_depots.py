"""Backups away from the members: carried, found whole or not, removed, made into clusters."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import msgspec
import pytest

from holdfast.core.config import LEVEL_MAX
from holdfast.errors import (
    ConfigurationError,
    CorruptFile,
    IllegalArgument,
    NewerFormat,
    StorageError,
)
from holdfast.ids import Address, PartitionId
from holdfast.shell.free_ports import free_ports
from holdfast.storage import backup, carrying, catalogue
from holdfast.storage.convert import Newcomer, Share, convert
from holdfast.storage.depot import (
    Depot,
    DepotFiles,
    Entry,
    EntryPart,
    FolderDepot,
    entries,
    entry_path,
    names_in,
    part_path,
    read_entry,
)
from holdfast.storage.files import RealFiles
from holdfast.storage.format import manifest
from holdfast.storage.objects import ObjectDepot, store_at
from holdfast.storage.recovery import recover
from holdfast.storage.sorting import needed_of
from tests.shell.waiting import wait_until
from tests.storage.parts import PARTITIONS
from tests.storage.test_backup import Running

BUCKET: Final = "grid-backups"
CLUSTER: Final = "5d2f4a0e-3a52-4d0f-9d1c-0f6f6f6f6f6f"


@contextmanager
def object_server(log: Path) -> Iterator[dict[str, str]]:
    """A server that speaks S3, and what the environment must say to use it."""
    (port,) = free_ports("127.0.0.1", 1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        wait_until(lambda: b"Running on" in log.read_bytes(), "the object store serves", 60)
        httpx.put(f"{url}/{BUCKET}", timeout=10, trust_env=False).raise_for_status()
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One for all tests here."""
    with object_server(tmp_path_factory.mktemp("objects") / "log") as environment:
        yield environment


@pytest.fixture(params=["folder", "objects"])
def depot(request: pytest.FixtureRequest, tmp_path: Path) -> Depot:
    """A new one of either kind."""
    if request.param == "folder":
        return FolderDepot(tmp_path / "depot")
    environment = request.getfixturevalue("server")
    return ObjectDepot(f"s3://{BUCKET}/{tmp_path.name}/", environment)


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Running]:
    """One that writes."""
    made = Running(tmp_path / "member")
    made.write(60)
    yield made
    made.stop()


class Volume:
    """What one member keeps in its own directory, as a depot of its backups."""

    def __init__(self, member: Running, root: Path) -> None:
        self._member = member
        self.depot = FolderDepot(root)
        (root / "parts").mkdir(parents=True)
        folder = member.directory / catalogue.FOLDER
        folder.mkdir()
        (root / "parts" / "m").symlink_to(folder)

    def back_up(self, name: str, created: float) -> Entry:
        """One more backup."""
        index = catalogue.keep(self._member.directory, backup.Part(name, ("m",), "c"))
        own = (EntryPart("m", "member-0", len(index.files), index.total_bytes, index.own_bytes),)
        entry = Entry(name, "c", "shop/orders", 3, PARTITIONS, created, own)
        self.depot.write(entry_path(name), manifest.encode(entry))
        return entry


@pytest.fixture
def volume(member: Running, tmp_path: Path) -> Volume:
    """Of that member."""
    return Volume(member, tmp_path / "volume")


def test_files_are_written_read_listed_and_removed(depot: Depot) -> None:
    depot.write("a/b/one", b"1" * 10)
    depot.write("a/b/one", b"1" * 12)
    depot.write("a/two", b"")
    assert depot.read("a/b/one") == b"1" * 12
    assert (depot.size("a/b/one"), depot.size("a/two")) == (12, 0)
    assert depot.list("a") == ["b/one", "two"]
    assert depot.list("nowhere") == []
    depot.remove("a/b/one")
    depot.remove("a/b/one")
    assert depot.list("a") == ["two"]
    for ask in (depot.read, depot.size):
        with pytest.raises(FileNotFoundError):
            ask("a/b/one")
    assert depot.where


def test_a_second_backup_carries_only_what_is_new(
    member: Running, volume: Volume, depot: Depot
) -> None:
    """1. The first of three backups of a member is carried. 2. The third one, too: what its own
    volume has of the second goes along, and what is in the first there does not."""
    volume.back_up("one", 1)
    done: list[int] = []
    first = carrying.carry(volume.depot, depot, "one", done.append)
    assert sum(done) == first.bytes == first.own_bytes
    assert carrying.carry(volume.depot, depot, "one") == first
    member.write(5)
    volume.back_up("two", 2)
    member.write(5)
    third = volume.back_up("three", 3)
    carried = carrying.carry(volume.depot, depot, "three")
    assert carried.bytes == third.bytes
    assert 0 < carried.own_bytes < carried.bytes
    assert [each.name for each in entries(depot)] == ["one", "three"]
    assert carrying.newest(depot) == "three"
    assert carrying.check(depot, "three") == carried
    there = recover(DepotFiles(depot, "m", "three"))
    here = recover(backup.files_at(member.directory / "backups" / "three"))
    assert there is not None
    assert here is not None
    assert there.fold.data.held == here.fold.data.held


def test_a_carrying_that_was_cut_short_is_no_backup_and_goes_on(
    volume: Volume, depot: Depot
) -> None:
    entry = volume.back_up("one", 1)

    class Cut(Exception):
        """The process ends."""

    def cut(_: int) -> None:
        raise Cut

    with pytest.raises(Cut):
        carrying.carry(volume.depot, depot, "one", cut)
    assert names_in(depot) == []
    with pytest.raises(StorageError, match="no whole backup 'one'"):
        carrying.check(depot, "one")
    with pytest.raises(StorageError, match="there is no whole backup"):
        carrying.newest(depot)
    assert carrying.carry(volume.depot, depot, "one").bytes == entry.bytes
    assert carrying.check(depot, "one").bytes == entry.bytes


def test_what_others_refer_to_stays_until_they_go(
    member: Running, volume: Volume, depot: Depot
) -> None:
    for number, name in enumerate(("one", "two", "three"), 1):
        volume.back_up(name, number)
        carrying.carry(volume.depot, depot, name)
        member.write(10)
    depot.write("parts/m/four/data/being-carried", b"x")
    assert carrying.forget(depot, ["one", "nonsense", "one"]) == ["one"]
    assert names_in(depot) == ["three", "two"]
    assert carrying.check(depot, "two").name == "two"
    assert depot.size(part_path("m", "one", carrying.GONE)) == 0
    with pytest.raises(IllegalArgument, match="was removed there"):
        carrying.carry(volume.depot, depot, "one")
    assert carrying.forget(depot, ["two", "three"]) == ["two", "three"]
    assert depot.list("parts") == ["m/four/data/being-carried"]


def test_a_member_forgets_its_own_parts_in_the_same_way(member: Running) -> None:
    parts = {}
    for name in ("one", "two"):
        parts[name] = catalogue.keep(member.directory, backup.Part(name, ("m",), "c"))
        member.write(3)
    catalogue.forget(member.directory, "one")
    catalogue.forget(member.directory, "one")
    assert list(catalogue.kept(member.directory)) == ["two"]
    backup.restore(member.directory / "backups" / "two", member.directory.parent / "again")
    with pytest.raises(StorageError, match="it was removed"):
        catalogue.keep(member.directory, backup.Part("one", ("m",), "c"))
    catalogue.forget(member.directory, "two")
    assert not any((member.directory / "backups").rglob("*"))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda d, p: d.remove(p), "the backup one needs it with"),
        (lambda d, p: d.write(p, d.read(p)[:-1]), "the backup one needs it with"),
        (lambda d, _: d.remove(part_path("m", "one")), "needs this part, and it is missing"),
    ],
    ids=["a file is missing", "a file is cut", "an index is missing"],
)
def test_what_is_not_whole_is_found(
    volume: Volume, tmp_path: Path, harm: Callable[[Depot, str], None], said: str
) -> None:
    volume.back_up("one", 1)
    depot = FolderDepot(tmp_path / "depot")
    carrying.carry(volume.depot, depot, "one")
    harm(depot, part_path("m", "one", "data/MANIFEST"))
    with pytest.raises(CorruptFile, match=said):
        carrying.check(depot, "one")


def test_what_is_read_is_what_was_kept(volume: Volume, tmp_path: Path) -> None:
    volume.back_up("one", 1)
    depot = FolderDepot(tmp_path / "depot")
    carrying.carry(volume.depot, depot, "one")
    files = DepotFiles(depot, "m", "one")
    path = part_path("m", "one", "identity.json")
    data = bytearray(depot.read(path))
    data[3] ^= 1
    depot.write(path, bytes(data))
    with pytest.raises(CorruptFile, match="the checksum is wrong"):
        files.read("identity.json")
    depot.remove(path)
    with pytest.raises(CorruptFile, match="it is missing"):
        files.read("identity.json")
    for ask in (files.read, files.size):
        with pytest.raises(FileNotFoundError):
            ask("LOCK")
    assert files.list("data")
    assert str(files).endswith("parts/m/one/")


def test_an_entry_of_a_later_version_is_refused(volume: Volume) -> None:
    entry = volume.back_up("one", 1)
    newer = msgspec.structs.replace(entry, format=9)
    volume.depot.write(entry_path("one"), manifest.encode(newer))
    with pytest.raises(NewerFormat, match="written in version 9"):
        read_entry(volume.depot, "one")
    volume.depot.write(entry_path("one"), manifest.encode(manifest.Version(1)))
    with pytest.raises(CorruptFile, match="malformed"):
        read_entry(volume.depot, "one")


def test_an_object_store_that_is_not_there_is_told(server: dict[str, str]) -> None:
    missing = ObjectDepot("s3://no-such-bucket", server)
    with pytest.raises(StorageError, match="there is no such bucket"):
        missing.write("a", b"")
    (port,) = free_ports("127.0.0.1", 1)
    silent = ObjectDepot("s3://b", {**server, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
    with pytest.raises(StorageError, match="the object store"):
        silent.read("a")
    with pytest.raises(ConfigurationError, match="names no bucket"):
        store_at("s3://", server)


def test_the_library_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigurationError, match=r"holdfast\[s3\]"):
        store_at("s3://b", {})


# Each member makes its own files ------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files."""
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file()
    }


@pytest.mark.parametrize(("size", "partitions"), [(1, 7), (3, PARTITIONS), (9, 40)])
def test_members_that_make_their_own_files_fit_one_another(
    volume: Volume, tmp_path: Path, size: int, partitions: int
) -> None:
    """Every key and record is as if one had made all of them."""
    volume.back_up("one", 1)
    tidy = [Newcomer("tidy", Address("t:1"), "t")]  # the author's keys are anywhere
    convert([DepotFiles(volume.depot, "m", "one")], tmp_path / "of", tidy,
            partition_count=PARTITIONS, replica_count=1, missing_allowed=True)  # fmt: skip
    sources = [tmp_path / "of" / "tidy"]
    names = [f"n{number}" for number in range(size)]
    newcomers = [Newcomer(name, Address(f"{name}:1"), name) for name in names]

    def make(target: Path, own: list[str]) -> int:
        made = convert(
            sources,
            target,
            newcomers,
            partition_count=partitions,
            replica_count=2,
            share=Share(CLUSTER, frozenset(own)),
            missing_allowed=True,
        )
        assert made.cluster == CLUSTER
        return made.keys

    keys = make(tmp_path / "all", names)
    each_keys = [make(tmp_path / f"of-{name}", [name]) for name in names]
    assert keys <= sum(each_keys) <= 2 * keys
    for name in names:
        alone = recover(RealFiles(tmp_path / f"of-{name}" / name, lock=False))
        together = recover(RealFiles(tmp_path / "all" / name, lock=False))
        assert alone is not None
        assert together is not None
        assert alone.identity.member == together.identity.member
        assert alone.fold.control.view == together.fold.control.view
        assert alone.fold.control.table == together.fold.control.table
        assert said_of(alone.fold.data) == said_of(together.fold.data)


def said_of(data: object) -> object:
    """Every key and record."""
    return {
        (partition, name): dict(written.entries())
        for partition, (_, fragments) in data.written.items()  # type: ignore[attr-defined]  # Data
        for name, written in fragments.items()
    }


@pytest.mark.parametrize(("before", "after"), [(7, 7), (271, 1021), (1021, 271), (1, 5), (5, 1)])
def test_only_partitions_that_can_have_a_key_are_read(before: int, after: int) -> None:
    """Against every slot there is."""
    for new in (0, after // 2, after - 1):
        wanted = {s * before >> 14 for s in range(1 << 14) if s * after >> 14 == new}
        assert needed_of(frozenset([PartitionId(new)]), before, after) == wanted


def test_the_level_is_that_of_the_new_cluster(volume: Volume, tmp_path: Path) -> None:
    volume.back_up("one", 1)
    newcomers = [Newcomer("n", Address("n:1"), "n")]
    for level in (2, LEVEL_MAX):
        target = tmp_path / str(level)
        convert(
            [DepotFiles(volume.depot, "m", "one")],
            target,
            newcomers,
            partition_count=3,
            replica_count=1,
            missing_allowed=True,
            level=level,
        )
        found = recover(RealFiles(target / "n", lock=False))
        assert found is not None
        assert found.fold.control.view is not None
        assert found.fold.control.view.level == level


def test_a_folder_of_parts_is_restored_as_a_members_own(volume: Volume, tmp_path: Path) -> None:
    volume.back_up("one", 1)
    depot = FolderDepot(tmp_path / "depot")
    carrying.carry(volume.depot, depot, "one")
    index = backup.restore(depot.root / "parts/m/one", tmp_path / "again")
    assert index.member
    shutil.rmtree(tmp_path / "again")
    assert json.loads((depot.root / entry_path("one")).read_bytes().splitlines()[0])["level"] == 3
