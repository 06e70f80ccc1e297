"""The supervisor itself: carries exits, reports and signals to `supervision`, and its effects away.

One thread, one loop. Whatever happens is put into a queue and taken from there one at a time, as an
effect may have a next event as its consequence (a process that could not be started).
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from holdfast.errors import MessageError
from holdfast.ids import Address, Millis
from holdfast.shell.supervisor.confirming import Messenger, spread
from holdfast.shell.supervisor.happenings import (
    Babbled,
    Begun,
    Confirm,
    Effect,
    Event,
    Exited,
    Finish,
    KillAsked,
    NotSpawned,
    Reported,
    Signal,
    Spawn,
    StopAsked,
    Tell,
    What,
    Woke,
)
from holdfast.shell.supervisor.processes import Command, Process, reap, spawn
from holdfast.shell.supervisor.reports import Lines, decode
from holdfast.shell.supervisor.supervision import Supervision

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
READ_BYTES: Final = 1 << 16
LAST_READS_MAX: Final = 64
LAST_WORDS_SECONDS: Final = 2.0
"""How long a supervisor that has nothing left to do still tries to tell of the last death."""

Commands = Callable[[int, bool], Command]
"""What to run for a child, and whether it may found a cluster."""


class Supervisor:
    """Runs the processes of one supervision until it finishes."""

    def __init__(
        self,
        supervision: Supervision,
        commands: Commands,
        messenger: Messenger,
        tell: Callable[[Tell], None],
        *,
        printed: Callable[[int, str], None] | None = None,
    ) -> None:
        """`printed` gets every line that a process prints; without it they print for themselves."""
        self.supervision = supervision
        self.commands = commands
        self.messenger = messenger
        self.tell = tell
        self.printed = printed
        self.processes: dict[int, Process] = {}
        self._readers: dict[int, Lines] = {}
        self._texts: dict[int, _Text] = {}
        self._queue: deque[Event] = deque()
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._confirming: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Until every process is gone for good; the exit code."""
        self._loop = asyncio.get_running_loop()
        self._finished = self._loop.create_future()
        for number in STOP_SIGNALS:
            self._loop.add_signal_handler(number, self.happen, StopAsked())
        self._loop.add_signal_handler(signal.SIGCHLD, self._reap)
        try:
            self.happen(Begun())
            code: int = await self._finished
            if self._confirming:
                await asyncio.wait(self._confirming, timeout=LAST_WORDS_SECONDS)
            return code
        finally:
            self._let_go()

    def stop(self) -> None:
        """Ask for the end; the second time, at once."""
        self.happen(StopAsked())

    def kill(self, child: int) -> None:
        """Kill one process, to see what becomes of it."""
        self.happen(KillAsked(child))

    def happen(self, event: Event) -> None:
        """Take an event and carry out what follows from it."""
        self._queue.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue:
                for effect in self.supervision.step(self._queue.popleft(), self._now()):
                    self._carry_out(effect)
        finally:
            self._busy = False
        self._set_timer()

    def _now(self) -> Millis:
        return Millis(int(self._loop.time() * 1_000))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_at = self.supervision.wake_at
        if wake_at is not None:
            self._timer = self._loop.call_at(wake_at / 1_000 + 0.001, self.happen, Woke())

    # Effects --------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Spawn():
                self._spawn(effect)
            case Signal():
                os.kill(self.processes[effect.child].pid, effect.number)
            case Confirm():
                task = self._loop.create_task(self._confirm(effect))
                self._confirming.add(task)
                task.add_done_callback(self._confirming.discard)
            case Tell():
                self.tell(effect)
            case Finish():
                self._finished.set_result(effect.code)

    def _spawn(self, effect: Spawn) -> None:
        child = effect.child
        try:
            command = self.commands(child, effect.may_found)
            process = spawn(command, catch_output=self.printed is not None)
        except OSError as error:
            self._queue.append(NotSpawned(child, f"it could not be started: {error}"))
            return
        self.processes[child] = process
        self._readers[child] = Lines()
        self._loop.add_reader(process.line, self._read_line, child)
        if process.output is not None:
            os.set_blocking(process.output, False)
            self._texts[child] = _Text()
            self._loop.add_reader(process.output, self._read_output, child)
        self.tell(Tell(What.STARTED, child, f"pid {process.pid}"))

    async def _confirm(self, death: Confirm) -> None:
        told: list[Address] = []

        def one_told(address: Address) -> None:
            told.append(address)
            if len(told) == 1:
                self.tell(Tell(What.CONFIRMED, death.child, f"{death.id}.{death.incarnation}"))

        reasons = await spread(death, self.messenger, self._now, one_told)
        if reasons and not told:
            self.tell(Tell(What.UNCONFIRMED, death.child, "; ".join(reasons)))

    # What processes say and how they end ----------------------------------------------------------

    def _read_line(self, child: int) -> bool:
        """Take one piece of what it reports; whether there may be more at once."""
        process = self.processes[child]
        try:
            data = process.line.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self._loop.remove_reader(process.line)
            return False
        for line in self._readers[child].feed(data):
            self._take_line(child, line)
        return True

    def _take_line(self, child: int, line: bytes) -> None:
        """One line that makes no sense spoils none of the others."""
        try:
            event: Event = Reported(child, decode(line))
        except MessageError as error:
            event = Babbled(child, error.message)
        self.happen(event)

    def _read_output(self, child: int) -> bool:
        """The same for what it prints."""
        output = self.processes[child].output
        assert output is not None
        assert self.printed is not None
        try:
            data = os.read(output, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(output)
        for line in self._texts[child].feed(data):
            self.printed(child, line)
        return bool(data)

    def _reap(self) -> None:
        children = {process.pid: child for child, process in self.processes.items()}
        for pid, status in reap(tuple(children)):
            if pid in children:
                self._ended(children[pid], status)

    def _ended(self, child: int, status: int) -> None:
        """What it said last comes first; but a descendant of it may hold the pipe and go on."""
        for _ in range(LAST_READS_MAX):
            if not self._read_line(child):
                break
        if self.processes[child].output is not None:
            for _ in range(LAST_READS_MAX):
                if not self._read_output(child):
                    break
        self._forget(child)
        self.happen(Exited(child, status))

    def _forget(self, child: int) -> None:
        process = self.processes.pop(child)
        self._loop.remove_reader(process.line)
        process.line.close()
        del self._readers[child]
        if process.output is not None:
            self._loop.remove_reader(process.output)
            os.close(process.output)
            del self._texts[child]

    def _let_go(self) -> None:
        """Whatever ended the run: no process stays, no handler either."""
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            self._loop.remove_signal_handler(number)
        if self._timer is not None:
            self._timer.cancel()
        for task in self._confirming:
            task.cancel()
        for child, process in tuple(self.processes.items()):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
            self._forget(child)


class _Text:
    """Cuts what a process prints into lines; a line that never ends is cut too."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """Lines that are complete; no data is the end, and ends the last one."""
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        if self._rest and (not data or len(self._rest) > READ_BYTES):
            lines.append(self._rest)
            self._rest = ""
        return lines
