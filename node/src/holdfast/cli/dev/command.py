"""`holdfast dev`: run a cluster on this machine until ctrl-C.

Exit code 0: it was ended. 2: the command line makes no sense, or the members' settings. Anything
else is what a member ended with that could not be started again. A cluster that is ended whole is
thrown away, unless its files are kept: that its members can't hand over their data to anybody then
is no failure.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import secrets
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from holdfast.cli.dev.board import Board
from holdfast.cli.dev.members import HOST, LEAVE_MS, Shape, flags_of, places
from holdfast.cli.dev.persisting import Home
from holdfast.cli.dev.showing import Json, Lines, Screen, Show
from holdfast.cli.dev.watching import Watch
from holdfast.cli.processes import http_messenger, member_process
from holdfast.ids import Millis
from holdfast.shell.free_ports import free_ports, is_free
from holdfast.shell.settings import load
from holdfast.shell.supervisor.happenings import Tell, What
from holdfast.shell.supervisor.layout import choose
from holdfast.shell.supervisor.policy import EXIT_PORT_TAKEN, Policy
from holdfast.shell.supervisor.processes import Command
from holdfast.shell.supervisor.supervision import Supervision
from holdfast.shell.supervisor.supervisor import Supervisor

LOOK_SECONDS: Final = 1.0
ATTEMPTS: Final = 5
KEPT_LINES: Final = 8
"""Of what a member printed, for the case that it dies."""
POLICY: Final = Policy(
    restart_max_ms=Millis(10_000), stable_after_ms=Millis(30_000), leave_ms=Millis(LEAVE_MS + 5_000)
)
SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}


class Output(StrEnum):
    """How it is shown."""

    TEXT = "text"
    JSON = "json"


def seconds(text: str) -> float:
    """A span such as 30s, 500ms or 2m."""
    found = SPAN.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise typer.BadParameter(f"{text!r} is no span of time: write 30s, 500ms, 2m or 1h")
    return float(found[1]) * UNITS[found[2]]


def dev_command(
    members: Annotated[int, typer.Option(help="Data members.", min=1)] = 3,
    lite: Annotated[int, typer.Option(help="Lite members: they own no partitions.", min=0)] = 0,
    processes: Annotated[
        int, typer.Option(help="Processes of each member, in one failure domain.", min=1)
    ] = 1,
    kill_every: Annotated[
        str | None,
        typer.Option(help="Kill a random member this often, as 30s, whenever the data is safe."),
    ] = None,
    persist: Annotated[
        Path | None,
        typer.Option(help="Directory for the members' files: the next start goes on with them."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="File with settings of all members.")] = None,
    output: Annotated[
        Output, typer.Option(help="text for people, json a line each for scripts.")
    ] = Output.TEXT,
) -> int:
    """Run a cluster on this machine, with a live table of its members, until ctrl-C."""
    shape = Shape(members, lite, processes)
    every = None if kill_every is None else seconds(kill_every)
    home = None if persist is None else Home(persist.resolve(), shape)
    try:
        return _run(shape, home, config, every, output)
    finally:
        if home is not None:
            home.close()


def _run(
    shape: Shape, home: Home | None, config: Path | None, every: float | None, output: Output
) -> int:
    """The cluster, until it ends. Ports that were free when they were chosen may be taken when the
    members come to bind them, as by another such command: then others are chosen."""
    code = EXIT_PORT_TAKEN
    for _ in range(ATTEMPTS):
        if code == EXIT_PORT_TAKEN:
            code = _on_free_ports(shape, home, config, every, output)
    return code


def _on_free_ports(
    shape: Shape, home: Home | None, config: Path | None, every: float | None, output: Output
) -> int:
    """The same, on ports that were free a moment ago."""
    choice = choose(shape.count, partial(is_free, HOST), lambda: free_ports(HOST, 1)[0])
    board = Board(places(shape, choice.ports))
    for index in range(shape.count):
        load(config, os.environ, flags_in(board, home, index, may_found=True))
    show = show_for(output, board)
    try:
        if home is not None:
            show.remark(f"its files are kept in {home.directory}")
        for remark in choice.remarks:
            show.remark(remark)
        return asyncio.run(Dev(board, show, config, every, home).run())
    finally:
        show.close()


def flags_in(board: Board, home: Home | None, index: int, *, may_found: bool) -> dict[str, str]:
    """What the process in a place is started with."""
    files = None if home is None else home.of(board.places[index].name)
    return flags_of(board.places, index, may_found=may_found, files=files)


def show_for(output: Output, board: Board) -> Show:
    """A table needs a terminal."""
    if output is Output.JSON:
        return Json(board, HOST)
    console = Console(highlight=False)
    return Screen(board, HOST, console) if console.is_terminal else Lines(board, HOST)


class Dev:
    """The supervisor of a local cluster, and what goes on beside it."""

    def __init__(
        self,
        board: Board,
        show: Show,
        config: Path | None,
        kill_every: float | None,
        home: Home | None = None,
    ) -> None:
        self.board = board
        self.home = home
        self.show = show
        self.config = config
        self.kill_every = kill_every
        self.supervision = Supervision(len(board.places), POLICY)
        secret = load(config, os.environ, flags_in(board, home, 0, may_found=True)).secret
        self.watch = Watch(board, secret)
        self.supervisor = Supervisor(
            self.supervision,
            self.command,
            http_messenger(secret),
            self.tell,
            printed=self.printed,
        )
        self._outrun = False
        """Whether a port was taken before a member could have it."""
        self._ready = asyncio.Event()
        self._unread = False
        self._printed = [deque[str](maxlen=KEPT_LINES) for _ in board.places]

    async def run(self) -> int:
        """Until the supervisor ends."""
        jobs: list[Coroutine[Any, Any, None]] = [self._watch()]
        if self.kill_every is not None:
            jobs.append(self._kill(self.kill_every))
        beside = [asyncio.create_task(job) for job in jobs]
        for task in beside:
            task.add_done_callback(self._ended_beside)
        try:
            code = await self.supervisor.run()
            if self._outrun:
                return EXIT_PORT_TAKEN
            return 0 if self.supervision.stopping else code
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self.watch.close()

    def _ended_beside(self, task: asyncio.Task[None]) -> None:
        """What goes on beside the members never ends by itself; if it does, that is not hidden."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.board.problem = f"it is not looked at any more: {error!r}"
            self._remark(f"a fault of this command, not of the cluster: {error!r}")

    def command(self, child: int, may_found: bool) -> Command:
        """The process for a place."""
        flags = flags_in(self.board, self.home, child, may_found=may_found)
        return member_process(self.config, flags)

    def tell(self, told: Tell) -> None:
        """To the board, and to whoever looks at it."""
        self.board.places[told.child].last_lines = list(self._printed[told.child])
        self.board.hear(told, self.supervision.children[told.child].who)
        if told.what is What.STARTED:
            self._printed[told.child].clear()
        self._shown(partial(self.show.told, told))
        if self.board.all_ready:
            self._ready.set()
        taken = self.supervision.children[told.child].code == EXIT_PORT_TAKEN
        if told.what is What.REFUSED and taken and not self.supervision.stopping:
            self._outrun = not self._ready.is_set()
            if self._outrun:
                self._remark("a port was taken meanwhile: all start anew on others")
                self.supervisor.stop()

    def _remark(self, text: str) -> None:
        self._shown(partial(self.show.remark, text))

    def _shown(self, act: Callable[[], None]) -> None:
        """Where nobody reads any more, as behind `| head`, the cluster ends."""
        if self._unread:
            return
        try:
            act()
        except OSError:
            self._unread = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.supervisor.stop()

    def printed(self, child: int, line: str) -> None:
        """Kept for the case that it was the last."""
        self._printed[child].append(line)

    async def _watch(self) -> None:
        """Look at the cluster again and again, through whichever member serves."""
        while True:
            await self.watch.look()
            self._shown(self.show.refresh)
            await asyncio.sleep(LOOK_SECONDS)

    async def _kill(self, every: float) -> None:
        """A death now and then, once the cluster is there. One that would take the only copy of
        something along is put off."""
        chance = random.Random(secrets.randbits(64))  # noqa: S311 - whom to kill is no secret
        await self._ready.wait()
        while True:
            await asyncio.sleep(every)
            await self._until_killable()
            if not self.supervision.stopping:
                self.supervisor.kill(chance.randrange(len(self.board.places)))

    async def _until_killable(self) -> None:
        told = ""
        while not self.supervision.stopping:
            await self.watch.look()
            reason = self.board.not_to_be_killed()
            if not reason:
                return
            if not told:
                told = f"nobody is killed yet: {reason}"
                self._remark(told)
            await asyncio.sleep(LOOK_SECONDS)
