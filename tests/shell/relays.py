"""Slow and broken links: everything between members goes through a relay of the test.

Each member listens at 127.0.0.1 and tells the others 127.0.0.2, where a relay has the same port. It
carries bytes on after a while, or not at all. Kernels without a shaper of traffic are common.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from functools import partial
from typing import Final

HOST: Final = "127.0.0.2"
"""What members tell the others."""
BEHIND: Final = "127.0.0.1"
CHUNK: Final = 64 << 10


class Relays:
    """One for each port, in a thread of their own."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.delay = 0.0
        """Seconds that every byte takes longer."""
        self.cut: frozenset[int] = frozenset()
        """Ports whose members reach nobody, and nobody them; what was on its way is lost."""
        self._ports = ports
        self._ready = threading.Event()
        self._writers: dict[asyncio.StreamWriter, frozenset[int]] = {}
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    async def _run(self) -> None:
        """Until it is told to end; then nothing is left open."""
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        servers = [
            await asyncio.start_server(partial(self._carry, port), HOST, port)
            for port in self._ports
        ]
        self._ready.set()
        await self._end.wait()
        for server in servers:
            server.close()
        self.cut = frozenset(self._ports)
        for writer in tuple(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One connection, both ways. Who dials says first where it is reached."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        both = [writer]
        self._writers[writer] = frozenset((port,))
        with contextlib.suppress(OSError):
            first = await reader.read(CHUNK)
            between = frozenset((port, self._named_in(first)))
            if not between & self.cut:
                far_reader, far_writer = await asyncio.open_connection(BEHIND, port)
                both.append(far_writer)
                self._writers |= dict.fromkeys(both, between)
                self._loop.call_later(self.delay, far_writer.write, first)
                ways = self._one_way(reader, far_writer), self._one_way(far_reader, writer)
                await asyncio.gather(*ways)
        await self._end_of(both)
        del self._tasks[task]

    async def _end_of(self, both: Sequence[asyncio.StreamWriter]) -> None:
        for each in both:
            del self._writers[each]
            each.transport.abort()
            with contextlib.suppress(OSError):
                await each.wait_closed()

    def _named_in(self, greeting: bytes) -> int:
        return next((port for port in self._ports if b"%d" % port in greeting), 0)

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                self._loop.call_later(self.delay, writer.write, data)
                await writer.drain()
        self._loop.call_later(self.delay, writer.close)

    def break_links(self, *ports: int) -> None:
        """Cut the members of these ports off, and end what leads to them and from them."""

        def end() -> None:
            self.cut = frozenset(ports)
            for writer, between in tuple(self._writers.items()):
                if between & self.cut:
                    writer.transport.abort()

        self._loop.call_soon_threadsafe(end)

    def close(self) -> None:
        """No more."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)
