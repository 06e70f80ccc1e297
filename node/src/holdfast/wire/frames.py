"""A stream of bytes, cut into frames: sans I/O, so that any transport can feed it.

Rules
-----
* `feed` takes whatever arrived and returns every message that is whole now, in order.
* A bad header is refused when its twelve bytes are there, before its body is waited for. So the
  reader never holds more than one header, one body of `FRAME_BYTES_MAX` and what came with them.
* After an error nothing in the stream can be trusted: the reader is poisoned and raises the same
  error for ever. Its connection is to be closed. Messages that stood before the bad frame in the
  same feed are lost with it, like by a cut connection, which every protocol above endures.

States
------
    READING ── bad frame ──► POISONED (final)

What can go wrong
-----------------
A flipped bit in a length makes the reader wait for bytes that never come. That is a silent peer:
the lease and the heartbeat notice it (`core`), not the reader.
"""

from __future__ import annotations

from holdfast.core.messages import Message, Origin
from holdfast.errors import RemoteProtocolError
from holdfast.wire.codec import HEADER_BYTES, Header, read_frame, read_header


class FrameReader:
    """Reads the frames of one connection."""

    __slots__ = ("_buffer", "_header", "_poison")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._header: Header | None = None
        self._poison: RemoteProtocolError | None = None

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[tuple[Origin, Message]]:
        """The messages that these bytes complete."""
        if self._poison is not None:
            raise self._poison
        self._buffer += data
        try:
            return self._read()
        except RemoteProtocolError as error:
            self._poison = error
            self._buffer = bytearray()
            raise

    def _read(self) -> list[tuple[Origin, Message]]:
        """Cut off every whole frame; the buffer is shortened once, not once a frame."""
        messages = []
        start = 0
        with memoryview(self._buffer) as view:
            while len(view) - start >= HEADER_BYTES:
                header = self._header or read_header(view[start : start + HEADER_BYTES])
                self._header = header
                end = start + HEADER_BYTES + header.length
                if end > len(view):
                    break
                messages.append(read_frame(header, view[start:end]))
                self._header = None
                start = end
        del self._buffer[:start]
        return messages
