"""Replies as a client reads them: RESP2, as far as the simulator's commands need it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error, its code first."""

    text: str


def parse(data: bytes) -> object:
    """Exactly one reply."""
    reply, end = _parse(data, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes after a reply: {data!r}")
    return reply


def _parse(data: bytes, at: int) -> tuple[object, int]:
    end = data.index(b"\r\n", at)
    kind, line, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"+":
        return line, after
    if kind == b"-":
        return ErrorReply(line.decode()), after
    if kind == b":":
        return int(line), after
    if kind == b"$":
        size = int(line)
        return (None, after) if size < 0 else (data[after : after + size], after + size + 2)
    if line == b"-1":
        return None, after
    items = []
    for _ in range(int(line)):
        item, after = _parse(data, after)
        items.append(item)
    return tuple(items), after
