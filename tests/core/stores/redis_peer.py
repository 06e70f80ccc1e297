"""A real redis-server beside us, spoken to in raw bytes: what it answers is what we answer."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

SERVER: Final = "redis-server"
VERSION: Final = "7.0"
READY: Final = b"ready to accept connections"
WAIT_S: Final = 10.0

Reply = tuple[bytes, "bytes | list[Reply] | None"]
"""The first byte of a reply, and what it says: its line, its bytes, its elements, or nothing."""


def why_not() -> str:
    """Why there is no server to compare with; empty if there is one."""
    path = shutil.which(SERVER)
    if path is None:
        return f"{SERVER} is not on the path: nothing was compared with Redis"
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    if f"v={VERSION}." not in told:
        return f"{SERVER} is not of version {VERSION}, whose texts are ours: {told.strip()}"
    return ""


@contextmanager
def redis_server() -> Iterator[Path]:
    """Run a server of our own; its socket."""
    with tempfile.TemporaryDirectory(prefix="holdfast-redis-") as folder:
        place = Path(folder) / "socket"
        command = [SERVER, "--port", "0", "--unixsocket", str(place), "--dir", folder]
        command += ["--save", "", "--appendonly", "no"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert any(READY in line.lower() for line in process.stdout), "the server ended"
                yield place
            finally:
                process.terminate()


class RedisPeer:
    """One connection."""

    def __init__(self, place: Path, dialect: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT_S)
        self._socket.connect(str(place))
        self._stream: BinaryIO = self._socket.makefile("rb")
        self.call([b"HELLO", b"%d" % dialect])

    def call(self, args: list[bytes]) -> bytes:
        """One command; its reply as it came."""
        parts = b"".join(b"$%d\r\n%b\r\n" % (len(arg), arg) for arg in args)
        self._socket.sendall(b"*%d\r\n%b" % (len(args), parts))
        return self._read()

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._socket.close()

    def _read(self) -> bytes:
        line = self._stream.readline()
        kind, size = line[:1], line[1:-2]
        if kind in b"$=" and size != b"-1":
            return line + self._stream.read(int(size) + 2)
        if kind in b"*~>%" and size != b"-1":
            count = int(size) * (2 if kind == b"%" else 1)
            return line + b"".join(self._read() for _ in range(count))
        assert line.endswith(b"\r\n"), "the connection ended"
        return line


def parse(raw: bytes) -> Reply:
    """A whole reply, taken apart."""
    reply, end = _parse(raw, 0)
    assert end == len(raw), raw
    return reply


def _parse(raw: bytes, at: int) -> tuple[Reply, int]:
    end = raw.index(b"\r\n", at)
    kind, text = raw[at : at + 1], raw[at + 1 : end]
    at = end + 2
    if text == b"-1" and kind in b"$*":
        return (kind, None), at
    if kind in b"$=":
        size = int(text)
        assert raw[at + size : at + size + 2] == b"\r\n", raw
        return (kind, raw[at : at + size]), at + size + 2
    if kind in b"*~>%":
        elements = []
        for _ in range(int(text) * (2 if kind == b"%" else 1)):
            element, at = _parse(raw, at)
            elements.append(element)
        return (kind, elements), at
    return (kind, text), at
