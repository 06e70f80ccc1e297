"""Requests of the Redis protocol, cut from a stream of bytes: sans I/O.

Rules (`design/4`: limits, "Redis' own error texts")
----------------------------------------------------
* A request is an array of byte strings, or one line of words as somebody types it.
* What Redis refuses is refused here with the same words, and the stream ends there: nothing behind
  can be trusted. Requests before it count.
* Nothing is kept that is longer than it may be: keys are not known here, but values and whole
  requests are, and a length that is too large is refused before its bytes are waited for.
* Most of what arrives is one whole request: `read_one` cuts it into lines and looks whether they
  are what they should be. Else it is several, and perhaps the beginning of one more. The whole ones
  are read by `hiredis`, in C. It knows replies, of which requests are a part, so what it says is
  checked: every item is a byte string, and a request that we have put behind came out last and
  alone, so that nothing is left in it. All else is read by `_Strict`, which decides.

States
------
    at the start of a request ──► in the middle of one (kept in `_Strict`) ──► ...
    any of them ──► BROKEN (final)

What can go wrong
-----------------
*An array that says that it has two thousand million items.* A reader that makes room for them
fills the memory; a piece with such a number in it is never given to `hiredis`.

*A web page that is open on this machine sends commands in the body of a request.* A browser lets
it, and each of the lines of HTTP before would be refused for itself. So the first of them that is
surely one of HTTP ends the stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import Final

import hiredis

from holdfast.errors import RemoteProtocolError

Arguments = list[bytes]

INLINE_MAX: Final = 64 * 1024
ITEMS_MAX: Final = 1024 * 1024
HEAD_MAX: Final = 32
"""A line that says a length has at most this many bytes."""
FAST_BYTES_MAX: Final = 512 * 1024
TAIL_BYTES_MAX: Final = 16 * 1024
"""A request of which no more is here is read again from its start with what follows."""

BAD_LENGTH: Final = "ERR Protocol error: invalid bulk length"
TOO_LONG: Final = "ERR Protocol error: the request is too long"

NOT_HTTP: Final = "ERR this port speaks the Redis protocol, not HTTP"

_HTTP: Final = (b"POST", b"HOST:")
_LAST: Final = b"*1\r\n$1\r\n\0\r\n"
_LAST_ARGUMENTS: Final = [b"\0"]
_MANY_ITEMS: Final = re.compile(rb"\*\d{7}")
_LINES: Final = {b"*%d" % count: 2 * count + 2 for count in range(1, 64)}
"""Of how many a request is, two for each item and what is behind the last end, by its first."""
_SIZES: Final = [b"$%d" % size for size in range(4_096)]
_DIGITS: Final = re.compile(rb"-?\d{1,18}\Z")
_ESCAPES: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


class RequestError(RemoteProtocolError):
    """The stream makes no sense from here on; the message is the error reply."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may take."""

    value_bytes_max: int = 64 << 20
    request_bytes_max: int = 512 << 20


class RequestReader:
    """Reads the requests of one connection."""

    __slots__ = ("_calm", "_fast", "_fast_max", "_limits", "_strict", "_tail", "error")

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._strict = _Strict(limits)
        self._fast = hiredis.Reader()
        self._fast_max = min(FAST_BYTES_MAX, limits.value_bytes_max)
        """In a piece of this length nothing can be too long."""
        self._tail = b""
        """The beginning of a short request, which `_strict` has seen already."""
        self.error: RequestError | None = None
        """Why nothing more can be read, if so."""
        self._calm = True
        """Whether the next byte begins a request."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of a request that is not whole yet."""
        return self._strict.pending_bytes

    def feed(self, data: bytes) -> list[Arguments]:
        """The requests that these bytes complete. `error` tells whether that was the end."""
        if self._calm and data.find(b"\r\n*") < 0 and len(data) <= self._fast_max:
            arguments = read_one(data)
            if arguments is not None:
                return [arguments]
        if self.error is not None:
            return []
        requests = self._feed_slowly(data)
        self._calm = self._strict.idle and self.error is None
        return requests

    def check(self, arguments: Arguments) -> None:
        """Refuse a request that came in its parts, from within the process, as if it had come in
        bytes."""
        if max(map(len, arguments)) > self._limits.value_bytes_max:
            raise RequestError(BAD_LENGTH)
        if sum(map(len, arguments)) > self._limits.request_bytes_max:
            raise RequestError(TOO_LONG)

    def _feed_slowly(self, data: bytes) -> list[Arguments]:
        """Several requests, or a part of one, or anything else."""
        if self._tail:
            data, self._tail = self._tail + data, b""
            self._strict = _Strict(self._limits)
        requests: list[Arguments] = []
        if data[:1] == b"*" and len(data) <= self._fast_max and self._strict.idle:
            if data[-2:] == b"\r\n" and self._read_fast(data, requests):
                return requests
            last = data.rfind(b"\r\n*") + 2
            if last > 2 and self._read_fast(data[:last], requests):
                data = data[last:]
        self._read_strictly(data, requests)
        return requests

    def _read_strictly(self, data: bytes, requests: list[Arguments]) -> None:
        fresh, known = self._strict.idle, len(requests)
        try:
            self._strict.feed(data, requests)
        except RequestError as error:
            self.error = error
            return
        if fresh and len(data) <= TAIL_BYTES_MAX and len(requests) == known:
            self._tail = data

    def _read_fast(self, data: bytes, requests: list[Arguments]) -> bool:
        """Whether all of `data` is whole requests as they should be; then they are added."""
        if _MANY_ITEMS.search(data):
            return False
        gets = self._fast.gets
        found: list[Arguments] = []
        try:
            self._fast.feed(data)
            self._fast.feed(_LAST)
            while (request := gets()) is not False:
                found.append(request)
            if found and type(found[-1]) is list and found.pop() == _LAST_ARGUMENTS:
                b"".join(chain.from_iterable(found))  # whatever is not bytes raises
                if data.count(b"\r\n$") == sum(map(len, found)) and all(found):
                    requests += found
                    return True
        except (hiredis.HiredisError, TypeError):
            pass
        self._fast = hiredis.Reader()
        return False


def read_one(data: bytes) -> Arguments | None:
    """The request that `data` is, if it is one whole request of short items without line ends."""
    lines = data.split(b"\r\n")
    if _LINES.get(lines[0]) != len(lines) or lines[-1]:
        return None
    arguments = lines[2::2]
    try:
        heads = [_SIZES[len(argument)] for argument in arguments]
    except IndexError:
        return None
    return arguments if heads == lines[1:-1:2] else None


class _Strict:
    """Any piece of the stream, byte by byte where it has to be."""

    __slots__ = ("_arguments", "_buffer", "_limits", "_missing", "_size", "_taken")

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._missing = 0
        """Items of the present request that are not here yet; 0 between requests."""
        self._arguments: Arguments = []
        self._size = -1
        """Bytes of the present item; -1 when its length is not known yet."""
        self._taken = 0
        """Bytes of the present request up to here."""

    @property
    def idle(self) -> bool:
        """Whether this is the start of a request."""
        return not self._missing and not self._buffer

    @property
    def pending_bytes(self) -> int:
        """What is kept of a request that is not whole."""
        return len(self._buffer) + self._taken

    def feed(self, data: bytes, requests: list[Arguments]) -> None:
        """Add the requests that are whole now; raises `RequestError` at the first bad byte."""
        self._buffer += data
        if self._size >= 0 and len(self._buffer) < self._size + 2:
            return  # a long value: nothing is looked at before it is whole
        position = 0
        try:
            while (after := self._step(position, requests)) is not None:
                position = after
        finally:
            del self._buffer[:position]

    def _step(self, position: int, requests: list[Arguments]) -> int | None:
        """Read one thing; where it ends, or None when it is not whole yet."""
        if self._size >= 0:
            return self._item(position, requests)
        end = self._line_end(position)
        if end is None:
            return None
        line = bytes(self._buffer[position:end])
        if self._missing:
            self._item_head(line)
        elif line[:1] == b"*":
            self._array_head(line)
        else:
            words = split_words(line.removesuffix(b"\r"))
            if words:
                refuse_browser(words[0])
                requests.append(words)
            return end + 1
        after = end + 1
        self._taken += after - position
        return after

    def _line_end(self, position: int) -> int | None:
        """Where the line feed of the next line is."""
        buffer = self._buffer
        end = buffer.find(b"\n", position)
        length = (end if end >= 0 else len(buffer)) - position
        first = bytes(buffer[position : position + 1])
        if self._missing or first == b"*":
            if length > HEAD_MAX:
                what = "bulk" if self._missing else "mbulk"
                raise RequestError(f"ERR Protocol error: too big {what} count string")
        elif length > INLINE_MAX:
            raise RequestError("ERR Protocol error: too big inline request")
        return end if end >= 0 else None

    def _array_head(self, line: bytes) -> None:
        count = _number(line[1:])
        if count is None or count > ITEMS_MAX:
            raise RequestError("ERR Protocol error: invalid multibulk length")
        self._missing = max(count, 0)
        self._taken = 0

    def _item_head(self, line: bytes) -> None:
        if line[:1] != b"$":
            seen = chr(line[0]) if line and 32 <= line[0] < 127 else " "
            raise RequestError(f"ERR Protocol error: expected '$', got '{seen}'")
        size = _number(line[1:])
        if size is None or not 0 <= size <= self._limits.value_bytes_max:
            raise RequestError(BAD_LENGTH)
        if self._taken + size > self._limits.request_bytes_max:
            raise RequestError(TOO_LONG)
        self._size = size

    def _item(self, position: int, requests: list[Arguments]) -> int | None:
        end = position + self._size
        if len(self._buffer) < end + 2:
            return None
        if self._buffer[end : end + 2] != b"\r\n":
            raise RequestError("ERR Protocol error: a value does not end where it should")
        self._arguments.append(bytes(memoryview(self._buffer)[position:end]))
        self._taken += self._size + 2
        self._size = -1
        self._missing -= 1
        if not self._missing:
            requests.append(self._arguments)
            self._arguments, self._taken = [], 0
        return end + 2


def refuse_browser(word: bytes) -> None:
    """End a stream that is a request of HTTP, as Redis does."""
    if word.upper() in _HTTP:
        raise RequestError(NOT_HTTP)


def _number(text: bytes) -> int | None:
    """A decimal number at the end of a line that says a length."""
    text = text.removesuffix(b"\r")
    return int(text) if _DIGITS.match(text) else None


def split_words(line: bytes) -> Arguments:
    """The words of a line, quoted as Redis allows it."""
    words: Arguments = []
    position = 0
    while True:
        while position < len(line) and line[position : position + 1].isspace():
            position += 1
        if position == len(line):
            return words
        word, position = _word(line, position)
        words.append(word)


def _word(line: bytes, position: int) -> tuple[bytes, int]:
    """One word, of plain and quoted parts, and where it ends."""
    word = bytearray()
    while position < len(line):
        char = line[position : position + 1]
        if char.isspace():
            break
        if char in (b'"', b"'"):
            part, position = _quoted(line, position + 1, char)
            word += part
            if position < len(line) and not line[position : position + 1].isspace():
                raise RequestError("ERR Protocol error: unbalanced quotes in request")
            break
        word += char
        position += 1
    return bytes(word), position


def _quoted(line: bytes, position: int, quote: bytes) -> tuple[bytes, int]:
    """What stands between quotes, and where the closing one is behind."""
    part = bytearray()
    while position < len(line):
        char = line[position : position + 1]
        following = line[position + 1 : position + 2]
        if char == quote:
            return bytes(part), position + 1
        if char == b"\\" and quote == b'"' and following:
            code = line[position + 2 : position + 4]
            if following == b"x" and re.fullmatch(rb"[0-9a-fA-F]{2}", code):
                part.append(int(code, 16))
                position += 4
            else:
                part += _ESCAPES.get(following, following)
                position += 2
        elif char == b"\\" and following == b"'":
            part += following
            position += 2
        else:
            part += char
            position += 1
    raise RequestError("ERR Protocol error: unbalanced quotes in request")
