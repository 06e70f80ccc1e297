"""The files of a member, and those of redis-server with the same data: written, read raw, recovered
to an image, taken over by the core, loaded by a new redis-server, whose log says how long it took.
`bench.figures.loading` divides them.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.core.data.copies import Copy
from holdfast.core.data_messages import FragmentStand, Stand
from holdfast.core.effects import FragmentRecord, MutationsRecord, Persist
from holdfast.core.events import Image
from holdfast.core.messages import Fragment
from holdfast.core.stores import fragment as fragments
from holdfast.core.stores.settings import Durability, NameSettings
from holdfast.errors import DiskFailed
from holdfast.ids import PartitionId
from holdfast.storage.engine import FileEngine
from holdfast.storage.files import RealFiles
from holdfast.storage.format.manifest import Identity

PARTITIONS = 271
STEP_RECORDS = 100
IDENTITY = Identity("bench", 0, PARTITIONS, 7)


class Ear:
    """Waits until everything is persisted."""

    def __init__(self) -> None:
        self.last = 0
        self.changed = threading.Condition()

    def persisted(self, sequence: int) -> None:
        """Note it."""
        with self.changed:
            self.last = sequence
            self.changed.notify_all()

    def failed(self, error: DiskFailed) -> None:
        """There is nothing to measure then."""
        sys.stderr.write(f"{error}\n")
        os._exit(1)

    def full(self, full: bool) -> None:
        """Likewise."""
        if full:
            sys.stderr.write("the disk is full\n")
            os._exit(1)


def pairs(count: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values; the values are not all alike."""
    noise = os.urandom(1 << 20)
    for number in range(count):
        place = number * 61 % (len(noise) - size)
        yield b"key:%012d" % number, noise[place : place + size]


def engine_at(root: Path) -> FileEngine:
    """The engine under test."""
    return FileEngine(
        RealFiles(root, lock=False), IDENTITY, durability_of=lambda _: Durability.EVERYSEC
    )


def write(root: Path, count: int, size: int) -> float:
    """Write everything as a member does, tick by tick; bytes written for each byte given."""
    engine, ear = engine_at(root), Ear()
    engine.recover()
    engine.start(1, ear)
    engine.write(
        [
            Persist(each + 1, FragmentRecord(PartitionId(each), Fragment(1, 0)))
            for each in range(PARTITIONS)
        ]
    )
    source = pairs(count, size)
    counters = [0] * PARTITIONS
    for sequence in range(PARTITIONS + 1, PARTITIONS + 1 + count // STEP_RECORDS):
        partition = sequence % PARTITIONS
        mutations = []
        for _ in range(STEP_RECORDS):
            key, value = next(source)
            counters[partition] += 1
            head = (1 << 56 | counters[partition] << 8).to_bytes(11, "big")
            mutations.append((key, head + value))
        counter = counters[partition]
        stand = FragmentStand(b"default", Stand(1, counter, (counter,) * 6), ((1, 0),))
        record = MutationsRecord(
            PartitionId(partition), 1, b"default", tuple(mutations), stand, 1, clean=True
        )
        engine.write([Persist(sequence, record)])
        if sequence % 64 == 0:
            with ear.changed:
                ear.changed.wait_for(lambda at=sequence - 64: ear.last >= at)  # type: ignore[misc]
    engine.close()
    return engine.figures().amplification


def timed(work: Callable[[], object]) -> float:
    """How long it takes."""
    gc.collect()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def read_raw(root: Path) -> None:
    """Every byte of the files."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            path.read_bytes()


def load_into(images: list[Image | None], root: Path) -> None:
    """What a member does first."""
    images.append(engine_at(root).recover())


def take_over(images: list[Image | None]) -> None:
    """What the core does with an image."""
    image = images.pop()
    assert image is not None
    gc.disable()
    for found in image.data:
        fragment = fragments.Fragment(found.stand.name, NameSettings(), 1)
        Copy(fragment, 1).recover(found)
    gc.enable()


# The peer -----------------------------------------------------------------------------------------


def redis(root: Path, *extra: str) -> subprocess.Popen[bytes]:
    """A server in this directory, without a port."""
    command = [
        "redis-server", "--port", "0", "--unixsocket", str(root / "socket"), "--dir", str(root),
        "--save", "", "--logfile", str(root / "log"), "--rdbcompression", "no", *extra,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while "ready to accept" not in text_of(root / "log") and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


def text_of(path: Path) -> str:
    """A file, or nothing."""
    return path.read_text() if path.exists() else ""


def redis_write(root: Path, count: int, size: int) -> None:
    """The same data in a file of redis."""
    process = redis(root)
    cli = ["redis-cli", "-s", str(root / "socket")]
    with subprocess.Popen(
        [*cli, "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as pipe:
        assert pipe.stdin is not None
        for key, value in pairs(count, size):
            pipe.stdin.write(
                b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, size, value)
            )
    subprocess.run([*cli, "SAVE"], check=True, stdout=subprocess.DEVNULL)
    stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it, and wait."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def redis_load(root: Path) -> float:
    """How long a new server says that it loaded."""
    (root / "log").unlink()
    stop(redis(root))
    found = re.search(r"DB loaded from disk: ([0-9.]+) seconds", text_of(root / "log"))
    assert found is not None, "redis-server did not say how long it loaded"
    return float(found.group(1))
