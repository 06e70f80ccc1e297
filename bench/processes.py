"""What the bench starts: processes on free ports of the loopback, all ended with their `Stage`.

Each has a session of its own, so that ctrl-C reaches the bench alone, which then ends them; and the
kernel ends them should the bench itself be killed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

ROOT: Final = Path(__file__).parents[1]
HOST: Final = "127.0.0.1"
DEADLINE_SECONDS: Final = 60.0
STEP_SECONDS: Final = 0.005
PR_SET_PDEATHSIG: Final = 1
LIBC: Final = ctypes.CDLL(None, use_errno=True)
INTERRUPTIONS: Final = (signal.SIGINT, signal.SIGTERM)

Found = TypeVar("Found")


class MissingProgram(Exception):
    """A peer is not installed."""


def program(name: str) -> str:
    """Where it is."""
    found = shutil.which(name)
    if found is None:
        raise MissingProgram(f"{name} is not installed: `make peers` gets it")
    return found


def wait_for(
    condition: Callable[[], Found | None],
    what: str,
    seconds: float = DEADLINE_SECONDS,
    step: float = STEP_SECONDS,
) -> Found:
    """Until it holds; what it found."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(step)
    return found


def _in_child() -> None:
    """End with the parent, and hear signals again."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Interruptions come later: between the start of a process and the note of it, nobody would end
    it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Process:
    """One of them."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.name = name
        self.log = log
        self.started_at = time.monotonic()
        with log.open("wb") as target:
            self.popen = subprocess.Popen(
                arguments,
                stdin=stdin,
                stdout=target,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=log.parent,
                start_new_session=True,
                preexec_fn=_in_child,  # noqa: PLW1509 - the bench has no threads
            )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.popen.pid

    def said(self) -> str:
        """All that it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def check_alive(self) -> None:
        """Raise what it said last, if it has ended."""
        if self.popen.poll() is not None:
            raise RuntimeError(
                f"{self.name} ended with {self.popen.returncode}: {self.said()[-2000:]}"
            )

    def cpu_seconds(self) -> float:
        """What it has used of the processors."""
        return _ticks(Path(f"/proc/{self.pid}/stat"))

    def loop_seconds(self) -> float:
        """The same of its first thread, which serves."""
        return _ticks(Path(f"/proc/{self.pid}/task/{self.pid}/stat"))

    def resident_bytes(self) -> int:
        """What it has in memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )

    def kill(self) -> None:
        """End it at once."""
        self.popen.kill()
        self.popen.wait()


def _ticks(file: Path) -> float:
    """Seconds of the processors, as the kernel counts them."""
    fields = file.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Stage:
    """Processes and a folder for their files, gone at the end, whatever happens."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-"))
        self.folder = Path(folder)
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.popen.kill()
        for process in self.processes:
            process.popen.wait()
        self._stack.close()

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Process:
        """One more."""
        folder = self.folder / f"{len(self.processes)}-{name}"
        folder.mkdir()
        given = os.environ if environment is None else environment
        with undisturbed():
            self.processes.append(Process(name, arguments, folder / "log", given, stdin))
        return self.processes[-1]


@contextmanager
def signals_end() -> Iterator[None]:
    """SIGTERM ends the bench like ctrl-C, so that what it started ends, too; and ctrl-C ends it
    also where a shell that runs it in the background had it ignored."""
    before = [signal.signal(number, signal.default_int_handler) for number in INTERRUPTIONS]
    try:
        yield
    finally:
        for number, handler in zip(INTERRUPTIONS, before, strict=True):
            signal.signal(number, handler)
