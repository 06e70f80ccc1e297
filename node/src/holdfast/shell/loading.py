"""What a member says while it reads its files: in its log, and on its HTTP port.

Rules (`design/3` §9, `design/5` "Recovery")
--------------------------------------------
* Nothing is served before everything is read (`keeper`), so nothing but this can be asked: probes,
  metrics, and for all else a problem document that says how far it is and how long it will take.
* It lives. It is not ready, and a cluster that waits for it is not safe.
* The port stays the same: the member's own server takes it over, with whoever waits there.

What can go wrong
-----------------
*Somebody sends nonsense, or nothing.* The connection ends after `PATIENCE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

import msgspec

from holdfast.storage.recovery import Progress
from holdfast.wire.api import METRICS_PREFIX, PROBLEM_TYPE, PROBLEM_URN

LOG: Final = logging.getLogger("holdfast.storage")
TELL_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 5.0
LINE_BYTES_MAX: Final = 16 << 10
JSON: Final = "application/json"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

Answer = tuple[HTTPStatus, str, bytes]


class Loading:
    """How far a member is with its files."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.progress = Progress(0, 0, 0)
        self._tell_at = self.began + TELL_SECONDS

    def watch(self, progress: Progress) -> None:
        """Some more is read; called from the thread that reads."""
        self.progress = progress
        now = time.monotonic()
        if now >= self._tell_at:
            self._tell_at = now + TELL_SECONDS
            LOG.info("%s", self.told())

    @property
    def seconds(self) -> float:
        """So long it has taken."""
        return time.monotonic() - self.began

    @property
    def part(self) -> float:
        """Of the files that is read."""
        return self.progress.done_bytes / max(self.progress.total_bytes, 1)

    @property
    def left_seconds(self) -> float:
        """What the rest takes, if it goes on like that."""
        return self.seconds * (1 - self.part) / max(self.part, 0.001)

    def told(self) -> str:
        """All of it in one sentence."""
        left = f"about {self.left_seconds:.0f} s left" if self.part else "it has just begun"
        return f"loads its files: {self.part:.0%}, {left}"

    # Over HTTP ------------------------------------------------------------------------------------

    def answer(self, path: str) -> Answer:
        """What is said to whoever asks for this."""
        if path == "/healthz/live":
            return HTTPStatus.OK, JSON, msgspec.json.encode({"live": True, "reasons": ()})
        if path in ("/healthz/ready", "/healthz/safe"):
            told = {path.rpartition("/")[2]: False, "reasons": (self.told(),)}
            return HTTPStatus.SERVICE_UNAVAILABLE, JSON, msgspec.json.encode(told)
        if path == "/metrics":
            return HTTPStatus.OK, TEXT, self._metrics()
        problem = {
            "type": f"{PROBLEM_URN}unavailable",
            "title": "Not at this moment",
            "status": int(HTTPStatus.SERVICE_UNAVAILABLE),
            "detail": self.told(),
            "instance": path,
            "errors": (),
        }
        return HTTPStatus.SERVICE_UNAVAILABLE, PROBLEM_TYPE, msgspec.json.encode(problem)

    def _metrics(self) -> bytes:
        figures = (
            ("ready", "Whether applications are served here.", 0.0),
            ("load_ratio", "How much of its files a starting member has read.", self.part),
            ("load_remaining_seconds", "What the rest will take, about.", self.left_seconds),
            ("load_records", "Records that it has read.", float(self.progress.records)),
        )
        lines = [
            f"# HELP {METRICS_PREFIX}{name} {text}\n# TYPE {METRICS_PREFIX}{name} gauge\n"
            f"{METRICS_PREFIX}{name} {value}\n"
            for name, text, value in figures
        ]
        return "".join(lines).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, and the end of its connection."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                request = await reader.readuntil(b"\r\n")
                _, path, _ = request.decode("latin-1").split(" ", 2)
                while await reader.readuntil(b"\r\n") != b"\r\n":
                    pass
                status, kind, body = self.answer(path.partition("?")[0])
                head = (
                    f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {kind}\r\n"
                    f"content-length: {len(body)}\r\ncache-control: no-store\r\n"
                    "retry-after: 1\r\nconnection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (TimeoutError, ValueError, asyncio.IncompleteReadError, OSError) as error:
            LOG.debug("a request while loading: %s", error)
        except asyncio.LimitOverrunError as error:
            LOG.debug("a request while loading is too long: %s", error)
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def answered(listener: socket.socket | None, loading: Loading) -> AsyncIterator[None]:
    """While this lasts, whoever asks on this port is told how far it is."""
    if listener is None:
        yield
        return
    server = await asyncio.start_server(loading.serve, sock=listener.dup(), limit=LINE_BYTES_MAX)
    try:
        yield
    finally:
        server.close()
