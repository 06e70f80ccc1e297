"""`holdfast sim`: run seeds of the simulator, and tell what broke.

A seed is a whole history of a cluster: its members, its faults, what administrators asked. The same
seed always gives the same history, so the command that is printed for a failure replays it.

Exit code 0: no invariant was broken. 1: one was. 2: the command line makes no sense.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holdfast.sim.bugs import BUGS
from holdfast.sim.run import Verdict, run_seed

EXIT_VIOLATION: Final = 1
PROGRESS_SECONDS: Final = 5.0
STORY_STEPS: Final = 40
JOBS_MAX: Final = 256
GC_OBJECTS: Final = 50_000


class Output(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


@dataclass(slots=True)
class Tally:
    """What was run so far."""

    started: float
    seeds: int = 0
    steps: int = 0
    virtual_ms: int = 0
    failures: list[Verdict] = field(default_factory=list)
    seen_in: Counter[str] = field(default_factory=Counter)
    """In how many seeds each thing happened."""
    times: Counter[str] = field(default_factory=Counter)
    """How often each thing happened."""

    def add(self, verdict: Verdict) -> None:
        """One more seed."""
        self.seeds += 1
        self.steps += verdict.steps
        self.virtual_ms += verdict.virtual_ms
        self.times.update(verdict.marks)
        self.seen_in.update(name for name, count in verdict.marks.items() if count)
        if verdict.violation is not None:
            self.failures.append(verdict)

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return time.monotonic() - self.started


def sim_command(
    start: Annotated[int, typer.Option(help="The first seed.", min=0)] = 1,
    seeds: Annotated[int, typer.Option(help="How many seeds, from there on.", min=1)] = 100,
    jobs: Annotated[
        int, typer.Option(help="Processes; 0 for one per core.", min=0, max=JOBS_MAX)
    ] = 0,
    output: Annotated[
        Output, typer.Option(help="text for people, json a line each.")
    ] = Output.TEXT,
    trace: Annotated[bool, typer.Option("--trace", help="Print every step, of each seed.")] = False,
    bug: Annotated[
        str | None, typer.Option(help="Switch on a deliberate fault of the core, by name.")
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after a failure.")
    ] = False,
) -> int:
    """Run seeds of the simulator: clusters on virtual time, with faults, until one breaks."""
    if bug is not None and bug not in BUGS:
        known = ", ".join(sorted(BUGS)) or "there are none"
        raise typer.BadParameter(f"no bug is called {bug!r}; known: {known}")
    tally = Tally(started=time.monotonic())
    printer = Printer(output, seeds, bug)
    for verdict in verdicts(range(start, start + seeds), jobs, bug, trace=trace):
        tally.add(verdict)
        printer.progress(tally)
        if verdict.violation is not None:
            printer.failure(verdict)
            if not keep_going:
                break
    printer.summary(tally)
    return EXIT_VIOLATION if tally.failures else 0


def verdicts(seeds: range, jobs: int, bug: str | None, *, trace: bool) -> Iterator[Verdict]:
    """The verdict of each seed, as it comes; seeds run beside one another unless traced."""
    wanted = min(jobs or multiprocessing.cpu_count(), len(seeds))
    _collect_seldom()
    if trace or wanted == 1:
        for seed in seeds:
            yield run_seed(seed, bug, listener=typer.echo if trace else None)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(wanted, _collect_seldom) as pool:
        yield from pool.imap_unordered(partial(run_seed, bug=bug), seeds)


def _collect_seldom() -> None:
    """A run makes many objects and few circles: to look for those less often saves a tenth."""
    gc.set_threshold(GC_OBJECTS, 20, 100)


class Printer:
    """What the user sees."""

    def __init__(self, output: Output, seeds: int, bug: str | None) -> None:
        self.output = output
        self.seeds = seeds
        self.bug = bug
        self.console = Console(highlight=False, soft_wrap=True)
        self._told = time.monotonic()

    def progress(self, tally: Tally) -> None:
        """A line now and then, on stderr: a run is never silent."""
        now = time.monotonic()
        if now - self._told < PROGRESS_SECONDS:
            return
        self._told = now
        rate = tally.seeds / tally.seconds
        left = (self.seeds - tally.seeds) / rate
        typer.echo(
            f"sim: {tally.seeds} of {self.seeds} seeds, {rate:.1f} a second, {left:.0f} s left,"
            f" {len(tally.failures)} failed",
            err=True,
        )

    def failure(self, verdict: Verdict) -> None:
        """Everything that is needed to understand one failed seed."""
        violation = verdict.violation
        assert violation is not None
        if self.output is Output.JSON:
            typer.echo(msgspec.json.encode({**asdict(verdict), "replay": self.replay(verdict)}))
            return
        table = Table("option", "value", title=f"seed {verdict.seed}", title_justify="left")
        for name, value in verdict.options:
            table.add_row(name, value)
        self.console.print(table)
        typer.echo("\nthe last steps:\n" + "\n".join(violation.story[-STORY_STEPS:]))
        typer.echo(f"\nseed {verdict.seed} breaks «{violation.invariant}»")
        typer.echo(violation.message)
        typer.echo(f"again: {self.replay(verdict)}\n")

    def replay(self, verdict: Verdict) -> str:
        """The command that shows the same run in full."""
        bug = f" --bug {self.bug}" if self.bug is not None else ""
        return f"holdfast sim --start {verdict.seed} --seeds 1 --trace{bug}"

    def summary(self, tally: Tally) -> None:
        """What was run, and what happened in it."""
        figures = {
            "seeds": tally.seeds,
            "failed": len(tally.failures),
            "failed_seeds": sorted(verdict.seed for verdict in tally.failures),
            "steps": tally.steps,
            "virtual_seconds": tally.virtual_ms // 1_000,
            "wall_seconds": round(tally.seconds, 1),
        }
        if self.output is Output.JSON:
            marks = {name: tally.seen_in[name] for name in sorted(tally.seen_in)}
            typer.echo(msgspec.json.encode({**figures, "seen_in_seeds": marks}))
            return
        table = Table("happened", "in seeds", "times", title_justify="left")
        for name in sorted(tally.seen_in):
            table.add_row(name, str(tally.seen_in[name]), str(tally.times[name]))
        self.console.print(table)
        failed = f"{len(tally.failures)} FAILED" if tally.failures else "none failed"
        typer.echo(
            f"{tally.seeds} seeds, {failed}; {tally.steps} steps,"
            f" {tally.virtual_ms / 60_000:.0f} minutes of virtual time in"
            f" {tally.seconds:.1f} s"
        )
        for verdict in islice(tally.failures, 20):
            assert verdict.violation is not None
            typer.echo(f"  seed {verdict.seed}: {verdict.violation.invariant}")
