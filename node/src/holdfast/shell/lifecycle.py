"""The life of a member's process, from its settings to its exit code.

    bind ports ─► start ─► (look for the cluster) ─► ready ─► SIGTERM: leave ─► exit 0
        │                        │                     │              │
        taken: 3, files: 9  refused: 4  core failed: 5, disk: 8   too long: 6, second signal: 7

Rules
-----
* All ports are bound before anything else is done: who can't have them does nothing.
* A signal asks the cluster to let this member go. It serves, and hands over its data, until the
  cluster says that it may; a second signal ends it at once. One that does not hand over closes
  its files and ends: for the others that is a death.
* Where nothing can be written, and the member has files, it does not leave either: its partitions
  wait for it. So a cluster that is stopped as a whole is one that comes back as a whole; if all
  took their leave, the last files would name no cluster.
* A supervisor that started this process is told who it is and whether it serves; its end is a
  signal as well (`supervised`).
* Nothing that takes long is silent.
* Whoever is refused for a reason that does not pass ends, and says the reason. A refusal by the
  cluster's master is one. So is a refused link, if nobody else of the cluster takes us for one of
  theirs: who of the two is set up wrongly can't be seen from one of them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import uuid
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Final

import uvloop

from holdfast.core.effects import Notice, NoticeKind
from holdfast.core.messages import Ask, Request
from holdfast.core.states import ClusterState
from holdfast.errors import CorruptFile, ForeignFiles, NewerFormat, StorageError
from holdfast.ids import Millis
from holdfast.shell import logs
from holdfast.shell.driver import Outcome
from holdfast.shell.keeper import open_files
from holdfast.shell.loading import Loading, answered
from holdfast.shell.member import HttpServer, Member
from holdfast.shell.ports import PortTaken, bind_all
from holdfast.shell.settings import Settings
from holdfast.shell.supervised import report
from holdfast.shell.supervisor.lifeline import Lifeline
from holdfast.storage.writer import Limits

LOG: Final = logging.getLogger("holdfast.member")
PROGRESS_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.02
WARM_SECONDS: Final = 2.0
"""Right after it is ready a member's partitions come back: that has the processor first, and what
nobody has asked for is loaded later."""
REFUSED_PATIENCE_SECONDS: Final = 5.0
DRAIN_LOOKS: Final = 50
GC_THRESHOLDS: Final = (100_000, 20, 50)
LOOKS: Final = "has what it had, and looks for its cluster"
LASTING: Final = ("IllegalArgument", "UnsupportedOperation")
"""Refusals of the master that don't pass with time."""


class Exit(IntEnum):
    """What the exit code of `holdfast member` says."""

    OK = 0
    """It left the cluster in good order, or was told to end without that (`hands_over`)."""
    BAD_SETTINGS = 2
    PORT_IN_USE = 3
    REFUSED = 4
    """The cluster does not let it in, for a reason that does not pass."""
    INTERNAL = 5
    """The core failed: a bug. The log has the story."""
    LEAVE_FAILED = 6
    """It was told to stop, and its data could not be handed over in time."""
    CUT_SHORT = 7
    """A second signal came while it was leaving."""
    DISK = 8
    """The disk failed, or another process has its directory open."""
    FILES = 9
    """Its files can't be read or its directory can't be one, and waiting does not change that; the
    log says which file, and where in it."""


def run(
    settings: Settings,
    make_http: Callable[[], HttpServer] | None = None,
    supervisor_fd: int | None = None,
) -> Exit:
    """Be a member until the end; at `supervisor_fd` is the socket of whoever started it."""
    logs.set_up(settings.options.log_format, settings.options.log_level, settings.name)
    for name in settings.unknown:
        LOG.warning("%s in the environment means nothing to a member", name)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        http = None if make_http is None else make_http()
        return runner.run(_live(settings, http, supervisor_fd))


async def _live(settings: Settings, http: HttpServer | None, supervisor_fd: int | None) -> Exit:
    options = settings.options
    gc.set_threshold(*GC_THRESHOLDS)
    line = None if supervisor_fd is None else await Lifeline.connect(supervisor_fd)
    try:
        listeners = bind_all(
            options.bind,
            plain=options.port_plain,
            cluster=options.port_cluster,
            member=options.port_member,
            http=None if http is None else options.port_http,
        )
    except PortTaken as error:
        LOG.critical("%s", error.message)
        return Exit.PORT_IN_USE
    keeper = None
    if options.data_dir:
        limits = Limits(reserve_bytes=options.disk_reserve_bytes)
        loading = Loading()
        try:
            async with answered(listeners.http, loading):
                keeper = await asyncio.to_thread(
                    open_files,
                    Path(options.data_dir),
                    settings.core,
                    limits=limits,
                    on_damage=options.on_damage,
                    loading=loading,
                )
        except (CorruptFile, NewerFormat, ForeignFiles) as error:
            LOG.critical("data_dir = %r: %s", options.data_dir, error)
            return Exit.FILES
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            LOG.critical("data_dir = %r: %s: %s", options.data_dir, error.filename, error.strerror)
            return Exit.FILES
        except (StorageError, OSError) as error:
            LOG.critical("data_dir = %r: %s", options.data_dir, error)
            return Exit.DISK
    life = Life(Member(settings, listeners, http, keeper), line)
    return await life.lead()


class Life:
    """One member's life, and how it ends."""

    def __init__(self, member: Member, line: Lifeline | None = None) -> None:
        self.member = member
        self._line = line
        self._over: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._leaving: asyncio.Task[None] | None = None
        self._refusals: dict[str, str] = {}
        self._was_in = False
        """Whether this process was ever in a cluster."""

    async def lead(self) -> Exit:
        """From the first packet to the last."""
        member, loop = self.member, asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        member.driver.listen(logs.tell)
        member.driver.listen(self._on_notice)
        await member.start(self._on_refused_link)
        loop.call_soon(LOG.info, LOOKS)  # after the turn in which the node took what was loaded
        self._tell_where()
        tasks = [loop.create_task(self._watch_end()), loop.create_task(self._watch_ready())]
        if self._line is not None:
            tasks.append(loop.create_task(report(member, self._line)))
            tasks.append(loop.create_task(self._watch_supervisor(self._line)))
        gc.collect()
        gc.freeze()
        code = await self._over
        for task in (*tasks, self._leaving):
            if task is not None:
                task.cancel()
        await member.stop()
        await self._drain()
        return code

    def _tell_where(self) -> None:
        ends = self.member.endpoints
        LOG.info(
            "listens: plain %s, cluster %s, members %s",
            ends.plain,
            ends.cluster,
            self.member.address,
            extra={
                "fields": {
                    "id": self.member.node.me.id,
                    "plain": ends.plain,
                    "cluster": ends.cluster,
                    "http": ends.http,
                    "link": self.member.address,
                }
            },
        )

    def _end(self, code: Exit) -> None:
        if not self._over.done():
            self._over.set_result(code)

    async def _drain(self) -> None:
        """Give what is written a moment to go out."""
        for _ in range(DRAIN_LOOKS):
            if not self.member.has_connections():
                break
            await asyncio.sleep(LOOK_SECONDS)

    async def _watch_end(self) -> None:
        await self.member.driver.ended()
        failure = self.member.driver.failure
        if isinstance(failure, StorageError):
            self._end(Exit.DISK)
            return
        if failure is not None:
            self._end(Exit.INTERNAL)
            return
        LOG.info("has left the cluster in good order")
        self._end(Exit.OK)

    async def _watch_ready(self) -> None:
        """Say when applications are served, and until then why not."""
        loop = asyncio.get_running_loop()
        told_at = loop.time()
        while not (health := self.member.health()).ready:
            if loop.time() - told_at >= PROGRESS_SECONDS:
                told_at = loop.time()
                LOG.info("not ready: %s%s", health.reason, self._unreached())
            await asyncio.sleep(LOOK_SECONDS)
        LOG.info("ready", extra={"fields": {"ready": True}})
        await asyncio.sleep(WARM_SECONDS)
        self.member.warm()

    def _unreached(self) -> str:
        """Which of those that it looks for its cluster with can't be reached, and why."""
        if self.member.node.view is not None and self.member.links.accepted_by:
            return ""
        initial, troubles = self.member.settings.core.initial, self.member.links.troubles()
        vain = [each for each in initial if each in troubles]
        return "".join(f"; {each} can't be reached: {troubles[each]}" for each in vain)

    # Refusals -----------------------------------------------------------------------------------

    def _on_notice(self, notice: Notice) -> None:
        self._was_in |= notice.kind in (NoticeKind.FOUNDED, NoticeKind.JOINED)
        if notice.kind is NoticeKind.REFUSED and notice.detail.startswith(LASTING):
            self._refuse(f"the cluster refuses this member: {notice.detail}")

    def _on_refused_link(self, address: str, reason: str) -> None:
        self._refusals[address] = reason
        others = set(self.member.settings.core.initial) - {self.member.address}
        if self.member.node.view is not None or self.member.links.accepted_by:
            return
        if others <= set(self._refusals):
            self._refuse(f"no other member has a link with this one: {reason}")
        elif len(self._refusals) == 1:
            loop = asyncio.get_running_loop()
            loop.call_later(REFUSED_PATIENCE_SECONDS, self._still_refused, reason)

    def _still_refused(self, reason: str) -> None:
        if self.member.node.view is None and not self.member.links.accepted_by:
            self._refuse(f"no other member has a link with this one: {reason}")

    def _refuse(self, why: str) -> None:
        if not self._over.done():
            LOG.error("%s", why)
            self._end(Exit.REFUSED)

    # Leaving ------------------------------------------------------------------------------------

    def _on_signal(self, number: signal.Signals) -> None:
        name = signal.Signals(number).name
        if not self.member.settings.options.hands_over:
            self._stop_with_files(name)
            return
        if self._leaving is not None:
            LOG.warning("%s again: ends at once", name)
            self._end(Exit.CUT_SHORT)
            return
        LOG.info("%s: asks the cluster to let this member go", name)
        self._leaving = asyncio.get_running_loop().create_task(self._leave())

    def _stop_with_files(self, why: str) -> None:
        LOG.info("%s: ends, and keeps what it has for its next start", why)
        self._end(Exit.OK)

    async def _watch_supervisor(self, line: Lifeline) -> None:
        """Whoever would end this process or start it again is gone: leave."""
        await line.supervisor_gone()
        if not self.member.settings.options.hands_over:
            self._stop_with_files("the supervisor is gone")
        elif self._leaving is None:
            LOG.warning("the supervisor is gone: asks the cluster to let this member go")
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    def _is_awaited(self) -> bool:
        """Whether it may simply end: nothing changes meanwhile, and it has all of it in files."""
        view = self.member.node.view
        listed = view is not None and view.find(self.member.node.me.id) is not None
        still = view is not None and not view.attributes.accepts_writes
        return listed and still and self.member.keeper is not None

    async def _leave(self) -> None:
        if self._is_awaited():
            self._stop_with_files("nothing can be written now")
            return
        if not self._was_in:
            self._stop_with_files("no cluster was found that could let it go")
            return
        timeout_ms = self.member.settings.options.leave_timeout_ms
        request = Request(
            id=str(uuid.uuid4()),
            ask=Ask.LEAVE,
            state=ClusterState.ACTIVE,
            level=0,
            wait_ms=Millis(timeout_ms),
            stamp=0,
        )
        progress = asyncio.get_running_loop().create_task(self._tell_progress())
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                outcome = await self.member.driver.ask(request, self._on_pending)
        except TimeoutError:
            outcome = Outcome("IllegalState", f"not let go within {timeout_ms} ms")
        finally:
            progress.cancel()
        if not outcome.done:
            LOG.error("could not leave in good order: %s", outcome.message)
            self._end(Exit.LEAVE_FAILED)

    def _on_pending(self, reason: str) -> None:
        LOG.info("leaving waits: %s", reason)

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            LOG.info("leaving: %d partitions are still here", self.member.held_partitions())
