"""The end of the socket that a member process holds: it reports there, and sees its supervisor go.

A process whose supervisor was killed has nobody left who would end it or start it again. The
kernel closes the other end of the socket then, whatever the reason was.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat

from holdfast.errors import ConfigurationError
from holdfast.shell.supervisor.reports import Report, encode


class Lifeline:
    """Make it with `connect`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, descriptor: int) -> Lifeline:
        """Take over the socket that the supervisor left at this descriptor."""
        try:
            is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        except OSError:
            is_socket = False
        if not is_socket:
            raise ConfigurationError([f"descriptor {descriptor} is no socket of a supervisor"])
        os.set_inheritable(descriptor, False)
        line = socket.socket(fileno=descriptor)
        line.setblocking(False)
        return cls(*await asyncio.open_connection(sock=line))

    def tell(self, report: Report) -> None:
        """Report; never waits, and says nothing to a supervisor that is gone."""
        if not self._writer.is_closing():
            self._writer.write(encode(report))

    async def supervisor_gone(self) -> None:
        """Return once the supervisor is gone."""
        try:
            while await self._reader.read(1 << 10):
                pass
        except ConnectionError:
            return

    async def close(self) -> None:
        """Send what was reported, and let go."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return
