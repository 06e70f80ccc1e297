"""The supervisor with real processes: small ones, that do as they are told."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.errors import ConfigurationError, IllegalState
from holdfast.ids import Address, MemberId, Millis
from holdfast.shell.supervisor.happenings import Tell, What
from holdfast.shell.supervisor.lifeline import Lifeline
from holdfast.shell.supervisor.policy import Policy
from holdfast.shell.supervisor.processes import Command
from holdfast.shell.supervisor.supervision import Supervision
from holdfast.shell.supervisor.supervisor import Supervisor
from tests.shell.supervisor.table import children_of, is_running
from tests.shell.waiting import DEADLINE_SECONDS, wait_until

SMALL = Path(__file__).with_name("small_member.py")
QUICK = Policy(restart_base_ms=Millis(20), restart_max_ms=Millis(100))


class Stage:
    """A supervisor of small processes, and everything that it said."""

    def __init__(self, *scripts: str, policy: Policy = QUICK, caught: bool = True) -> None:
        self.scripts = [script.split() for script in scripts]
        self.told: list[Tell] = []
        self.printed: list[tuple[int, str]] = []
        self.messages: list[tuple[str, str, int]] = []
        self.deaf: set[Address] = set()
        self.strangers: set[str] = set()
        self.supervisor = Supervisor(
            Supervision(len(scripts), policy),
            self.command,
            self.message,
            self.hear,
            printed=self.hear_printed if caught else None,
        )
        self._news = asyncio.Event()

    def command(self, child: int, may_found: bool) -> Command:
        words = [*(["say=founds"] if may_found else []), *self.scripts[child]]
        arguments = (sys.executable, str(SMALL), f"m{child}", *words)
        return Command(arguments, {**os.environ, "PYTHONUNBUFFERED": "1"})

    async def message(
        self, address: Address, member: MemberId, incarnation: int, ago: Millis
    ) -> bool:
        assert 0 <= ago < DEADLINE_SECONDS * 1_000
        if address in self.deaf:
            raise IllegalState("deaf")
        self.messages.append((address, member, incarnation))
        return member not in self.strangers

    def hear(self, tell: Tell) -> None:
        self.told.append(tell)
        self._news.set()

    def hear_printed(self, child: int, line: str) -> None:
        self.printed.append((child, line))
        self._news.set()

    def pid(self, child: int) -> int:
        return self.supervisor.processes[child].pid

    def count(self, what: What, child: int | None = None) -> int:
        return sum(t.what is what and child in (None, t.child) for t in self.told)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                self._news.clear()
                await self._news.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[int]]:
        task = asyncio.create_task(self.supervisor.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert not self.supervisor.processes

    async def run(self) -> int:
        async with self.running() as task, asyncio.timeout(DEADLINE_SECONDS):
            return await task


@pytest.mark.parametrize(("code", "what"), [(0, What.LEFT), (2, What.REFUSED)])
async def test_an_exit_code_is_kept(code: int, what: What) -> None:
    stage = Stage(f"introduce exit={code}")
    assert await stage.run() == code
    assert [tell.what for tell in stage.told] == [What.STARTED, What.INTRODUCED, what]


async def test_one_refused_process_leaves_the_other_alone() -> None:
    stage = Stage("exit=2", "introduce ready")
    async with stage.running() as task:
        await stage.until(lambda: stage.count(What.REFUSED) + stage.count(What.READY) == 2)
        stage.supervisor.stop()
        assert await task == 2
    assert stage.count(What.LEFT, 1) == 1


async def test_a_killed_process_is_confirmed_and_started_again() -> None:
    stage = Stage("introduce ready", "introduce ready")
    async with stage.running() as task:
        await stage.until(lambda: stage.count(What.READY) == 2)
        first, second = stage.pid(0), stage.pid(1)
        os.kill(first, signal.SIGKILL)
        await stage.until(lambda: stage.count(What.READY) == 3 and bool(stage.messages))
        assert stage.messages == [(f"http:{second}", "m0", first)]
        assert stage.count(What.CONFIRMED, 0) == 1
        assert stage.pid(0) != first
        assert not is_running(first)
        stage.supervisor.stop()
        assert await task == 0
    assert stage.printed.count((0, "founds")) == 1, "the second one was not allowed to"


async def test_a_process_that_keeps_dying_is_tried_again_and_again() -> None:
    stage = Stage("say=hello exit=1")
    async with stage.running() as task:
        await stage.until(lambda: stage.count(What.STARTED) == 5)
        stage.supervisor.stop()
        await task
    assert stage.printed.count((0, "hello")) >= 4
    waits = [tell.detail for tell in stage.told if tell.what is What.RESTARTS]
    assert waits[:4] == ["at once", "in 20 ms", "in 40 ms", "in 80 ms"]


async def test_signals_are_passed_on_and_a_second_one_kills() -> None:
    stage = Stage("introduce ready", "stubborn introduce ready")
    async with stage.running() as task:
        await stage.until(lambda: stage.count(What.READY) == 2)
        os.kill(os.getpid(), signal.SIGTERM)
        await stage.until(lambda: stage.count(What.LEFT, 0) == 1)
        assert not task.done()
        os.kill(os.getpid(), signal.SIGINT)
        assert await task == 137
    assert stage.count(What.DIED, 1) == 1


async def test_a_stubborn_process_is_killed_after_the_limit() -> None:
    policy = Policy(leave_ms=Millis(50))
    stage = Stage("stubborn introduce ready", policy=policy)
    async with stage.running() as task:
        await stage.until(lambda: stage.count(What.READY) == 1)
        stage.supervisor.stop()
        assert await task == 137


async def test_whom_nobody_hears_of_is_said() -> None:
    stage = Stage("introduce ready", "introduce ready")
    async with stage.running():
        await stage.until(lambda: stage.count(What.READY) == 2)
        stage.deaf.add(Address(f"http:{stage.pid(1)}"))
        stage.supervisor.kill(0)
        await stage.until(lambda: stage.count(What.UNCONFIRMED) == 1)
    (said,) = [tell.detail for tell in stage.told if tell.what is What.UNCONFIRMED]
    assert said.endswith(": deaf")


async def test_a_dead_process_that_nobody_had_let_in() -> None:
    stage = Stage("introduce", "introduce ready")
    stage.strangers.add("m0")
    async with stage.running():
        await stage.until(lambda: stage.count(What.INTRODUCED) == 2)
        stage.supervisor.kill(0)
        await stage.until(lambda: len(stage.messages) == 1)
        await stage.until(lambda: stage.count(What.INTRODUCED, 0) == 2)
    assert stage.count(What.CONFIRMED) + stage.count(What.UNCONFIRMED) == 0


async def test_babble_is_told_and_harmless() -> None:
    stage = Stage("babble introduce wait babble ready")
    async with stage.running():
        await stage.until(lambda: stage.count(What.READY) == 1)
    assert stage.count(What.BABBLED) == 2
    assert Tell(What.WAITING, 0, "for others") in stage.told


async def test_a_program_that_is_not_there() -> None:
    stage = Stage("")
    stage.supervisor.commands = lambda _, __: Command(("/does/not/exist",), {})
    async with stage.running() as task:
        await stage.until(lambda: stage.count(What.RESTARTS) >= 2)
        stage.supervisor.stop()
        assert await task == 1
    assert any("could not be started" in tell.detail for tell in stage.told)


async def test_without_a_catcher_processes_print_for_themselves(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert await Stage("say=aloud exit=0", caught=False).run() == 0
    assert "aloud" in capfd.readouterr().out


async def test_what_is_printed_without_an_end_of_line_is_not_lost() -> None:
    stage = Stage("")
    script = "import sys; sys.stdout.buffer.write(b'\\xff' + b'x' * 100000 + b'\\nlast')"
    stage.supervisor.commands = lambda _, __: Command((sys.executable, "-c", script), {})
    assert await stage.run() == 0
    assert "".join(line for _, line in stage.printed).count("x") == 100_000
    assert stage.printed[-1] == (0, "last")


async def test_a_cancelled_run_leaves_nothing_behind() -> None:
    stage = Stage("stubborn introduce ready", "introduce")
    async with stage.running():
        await stage.until(lambda: stage.count(What.INTRODUCED) == 2)
        pids = [stage.pid(0), stage.pid(1)]
    assert not any(map(is_running, pids))


SUPERVISOR_SCRIPT = """
import asyncio, sys
from tests.shell.supervisor.test_supervisor import Stage
stage = Stage("orphan introduce ready", "introduce ready", caught=False)
hear = stage.supervisor.tell
def tell(told):
    hear(told)
    print(told.what, told.child, told.detail, flush=True)
stage.supervisor.tell = tell
sys.exit(asyncio.run(stage.supervisor.run()))
"""


@pytest.fixture
def outer() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a supervisor in a process of its own, perhaps by another program."""
    started: list[subprocess.Popen[str]] = []

    def start(*before: str) -> subprocess.Popen[str]:
        command = [*before, sys.executable, "-c", SUPERVISOR_SCRIPT]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read_until(process: subprocess.Popen[str], word: str, times: int) -> list[str]:
    """Lines up to the one in which the word was seen so many times; the pipe's end fails."""
    assert process.stdout is not None
    lines: list[str] = []
    while sum(word in line for line in lines) < times:
        line = process.stdout.readline()
        assert line, f"ended after {lines}"
        lines.append(line.strip())
    return lines


def test_processes_end_when_their_supervisor_is_killed(
    outer: Callable[..., subprocess.Popen[str]],
) -> None:
    """They hold its standard output: its end is theirs."""
    process = outer()
    pids = [
        int(line.split()[-1])
        for line in read_until(process, "ready", 2)
        if line.startswith("started")
    ]
    assert len(pids) == 2
    assert all(map(is_running, pids))
    process.kill()
    assert process.stdout is not None
    process.stdout.read()
    wait_until(lambda: not any(map(is_running, pids)), "nobody is left")


@pytest.mark.skipif(
    subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
    ).returncode
    != 0,
    reason="needs the right to make a process namespace",
)
def test_the_first_process_of_a_container_reaps_orphans(
    outer: Callable[..., subprocess.Popen[str]],
) -> None:
    """A descendant whose parent is gone becomes ours; it must not stay a zombie."""
    process = outer("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    read_until(process, "ready", 2)
    (unshared,) = children_of(process.pid)
    wait_until(lambda: len(children_of(unshared)) == 2, "the orphan is reaped")
    os.kill(unshared, signal.SIGTERM)
    assert process.wait(DEADLINE_SECONDS) == 0


async def test_a_descriptor_that_is_no_socket() -> None:
    with pytest.raises(ConfigurationError, match="no socket"):
        await Lifeline.connect(987)
    reading, writing = os.pipe()
    with pytest.raises(ConfigurationError, match="no socket"):
        await Lifeline.connect(reading)
    os.close(reading)
    os.close(writing)


async def test_a_supervisor_that_is_gone_is_told_nothing() -> None:
    ours, theirs = socket.socketpair()
    line = await Lifeline.connect(theirs.detach())
    gone = asyncio.create_task(line.supervisor_gone())
    ours.close()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await gone
    await line.close()
