"""Processes: starting, signalling and reaping them, and their socket.

A process is waited for here and nowhere else, in the thread of the loop, so that a signal can
never hit a stranger who got the number of one that is gone.

Each gets a process group of its own: a terminal's ctrl-C reaches the supervisor alone, which
decides what becomes of its processes.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

CHILD_FD: Final = 3
"""Where a member process finds its end of the socket."""
RESET: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)


@dataclass(frozen=True, slots=True)
class Command:
    """What to run."""

    arguments: tuple[str, ...]
    """The first is the path of the program."""
    environment: Mapping[str, str]


@dataclass(slots=True)
class Process:
    """One that was started and is not reaped."""

    pid: int
    line: socket.socket
    """Our end: it reports there, and sees us vanish."""
    output: int | None
    """What it prints, if that is caught; to be read and closed by whoever started it."""


def spawn(command: Command, *, catch_output: bool) -> Process:
    """Start a process with a socket at `CHILD_FD`, or raise `OSError`."""
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe() if catch_output else (None, None)
    actions: list[tuple[int, int, int]] = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), CHILD_FD)]
    if writing is not None:
        actions = [(os.POSIX_SPAWN_DUP2, writing, stream) for stream in (1, 2)] + actions
    try:
        pid = os.posix_spawn(
            command.arguments[0],
            command.arguments,
            dict(command.environment),
            file_actions=actions,
            setpgroup=0,
            setsigmask=(),
            setsigdef=RESET,
        )
    except OSError:
        ours.close()
        if reading is not None:
            os.close(reading)
        raise
    finally:
        theirs.close()
        if writing is not None:
            os.close(writing)
    ours.setblocking(False)
    return Process(pid, ours, reading)


def reap(pids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Those of `pids` that are gone, each with its status; the first process reaps orphans too."""
    if os.getpid() == 1:
        yield from _reap_everything()
        return
    for pid in pids:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            yield pid, os.waitstatus_to_exitcode(status)


def _reap_everything() -> Iterator[tuple[int, int]]:
    """Orphans in a container become children of its first process: nobody else can."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, os.waitstatus_to_exitcode(status)
