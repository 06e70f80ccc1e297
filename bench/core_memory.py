"""What an entry takes in memory, beside a Redis server: `python bench/core_memory.py [entries]`.

Both get the same keys and values of 100 bytes. Redis' part is the growth of `used_memory_rss` of a
server of its own, started for this with no files on a port of the loopback; ours is the growth of
this process' resident set while a node of one member takes the same SETs.
"""

from __future__ import annotations

import gc
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "node" / "src")]

from bench.plane_cluster import Quiet
from holdfast.core.events import Commanded
from holdfast.core.stores.settings import NameSettings
from holdfast.shell.free_ports import free_ports

ENTRIES = 500_000
BATCH = 500
VALUE = 100
WAIT_S = 10.0


def key_of(number: int) -> bytes:
    """Keys of one name."""
    return b"users:%08d" % number


def value_of(number: int) -> bytes:
    """No two are one object."""
    return b"%0*d" % (VALUE, number)


def resident() -> int:
    """Bytes of this process that are in memory."""
    gc.collect()
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line
    )
    return int(line.split()[1]) * 1024


def ours(entries: int) -> float:
    """Bytes an entry in a node."""
    cluster = Quiet(1, NameSettings())
    before = resident()
    for start in range(0, entries, BATCH):
        commands = [[b"SET", key_of(n), value_of(n)] for n in range(start, start + BATCH)]
        cluster.step(cluster.first.me.address, Commanded(((1, commands),)))
    return (resident() - before) / entries


class Redis:
    """A server for this run, spoken to in its own protocol."""

    def __init__(self, program: str) -> None:
        (port,) = free_ports("127.0.0.1", 1)
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                self.link = socket.create_connection(("127.0.0.1", port), WAIT_S)
                break
            except OSError:
                if time.monotonic() > deadline:
                    self.process.kill()
                    raise
        self.answers = self.link.makefile("rb")

    def memory(self) -> int:
        """Resident bytes, as it says itself."""
        self.link.sendall(b"INFO memory\r\n")
        size = int(self.answers.readline()[1:])
        text = self.answers.read(size + 2).decode()
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        return int(fields["used_memory_rss"])

    def fill(self, entries: int) -> None:
        """The same SETs."""
        for start in range(0, entries, BATCH):
            parts = []
            for n in range(start, start + BATCH):
                key, value = key_of(n), value_of(n)
                head = b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n" % (len(key), key)
                parts.append(b"%b$%d\r\n%b\r\n" % (head, len(value), value))
            self.link.sendall(b"".join(parts))
            for _ in range(BATCH):
                self.answers.readline()

    def stop(self) -> None:
        """The end of it."""
        self.link.close()
        self.process.terminate()
        self.process.wait(WAIT_S)


def theirs(entries: int) -> float:
    """Bytes an entry in Redis."""
    program = shutil.which("redis-server")
    if program is None:
        sys.exit("redis-server is not installed; it is what this compares with")
    server = Redis(program)
    try:
        before = server.memory()
        server.fill(entries)
        return (server.memory() - before) / entries
    finally:
        server.stop()


def main() -> None:
    """Measure both and print."""
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES
    entries -= entries % BATCH
    redis, node = theirs(entries), ours(entries)
    print(f"{entries} entries of {len(key_of(0))} + {VALUE} bytes")
    print(f"redis-server {redis:.0f} bytes an entry, a node {node:.0f}: {node / redis:.2f} times")


if __name__ == "__main__":
    main()
