"""`holdfast plan`: which migrations bring one row of the partition table to another, and why so.

It needs no cluster: the rows are given, the planner is the one that the master uses.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, BinaryIO

import msgspec
import typer

from holdfast.core.cycles import check_rows, repair_cycles
from holdfast.core.migrations import Move, apply_step
from holdfast.core.planner import BACKUPS_MAX, plan
from holdfast.errors import IllegalArgument, PlanError
from holdfast.ids import NO_INDEX, REPLICA_COUNT_MAX, MemberId, Replicas

VACANT = "-"


class Output(StrEnum):
    """How a plan is written."""

    TEXT = "text"
    JSON = "json"


class Migration(msgspec.Struct):
    """One migration as it is written to JSON; -1 is no index."""

    type: str
    source: str | None
    source_current_index: int
    source_new_index: int
    destination: str | None
    destination_current_index: int
    destination_new_index: int
    atomic_with_next: bool


class PlanReport(msgspec.Struct):
    """A plan as it is written to JSON."""

    target: Replicas
    """The target that is reached: the given one, but for the kept slots."""
    kept: tuple[int, ...]
    """Slots that keep their members since they only change places: a cycle (seed 002 §3.2.1)."""
    migrations: list[Migration]
    steps: list[Replicas]
    """The row after each step; migrations of one step share it."""


class BatchLine(msgspec.Struct, forbid_unknown_fields=True):
    """One line of `--batch`."""

    current: list[str | None]
    target: list[str | None]
    backups: Annotated[int, msgspec.Meta(ge=0, le=BACKUPS_MAX)] | None = None


class BatchError(msgspec.Struct):
    """What stands in the place of a plan when a line can't be planned."""

    error: str


# --- the command -------------------------------------------------------------------------------


def plan_command(
    current: Annotated[
        str | None, typer.Argument(help="Members by replica index, owner first; - is vacant.")
    ] = None,
    target: Annotated[str | None, typer.Argument(help="The same, as it shall become.")] = None,
    *,
    backups: Annotated[
        int,
        typer.Option(
            min=0,
            max=BACKUPS_MAX,
            help="The most backups that any namespace has. Below 6, the copies in indexes 0..k"
            " never fall for any k up to it, and migrations share a step where that needs it.",
        ),
    ] = BACKUPS_MAX,
    output: Annotated[
        Output | None, typer.Option(help="text, or json with the target, migrations and rows.")
    ] = None,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            help='Read JSON lines {"current": [..], "target": [..], "backups": N} from standard'
            " input, null for vacant, and write one JSON plan a line.",
        ),
    ] = False,
) -> None:
    """Print the migrations that bring one partition from CURRENT to TARGET, in order.

    Example: holdfast plan 'A,B,-' 'C,A,B'
    """
    if batch:
        if current is not None or output is Output.TEXT:
            raise IllegalArgument("--batch reads rows from standard input and writes JSON")
        run_batch(typer.get_binary_stream("stdin"), typer.get_binary_stream("stdout"), backups)
        return
    if current is None or target is None:
        raise IllegalArgument("give two rows, such as 'A,B,-' 'C,A,B', or --batch")
    before = read_row("current", split_row(current))
    after = read_row("target", split_row(target))
    report = report_of(before, after, backups)
    if output is Output.JSON:
        typer.echo(msgspec.json.encode(report))
    else:
        typer.echo("\n".join(lines_of(before, report)))


def run_batch(lines: BinaryIO, out: BinaryIO, backups: int) -> None:
    """A plan a line, as they come. A bad line gets an error in its place and the rest go on."""
    decoder = msgspec.json.Decoder(BatchLine)
    encoder = msgspec.json.Encoder()
    failed = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        answer: PlanReport | BatchError
        try:
            answer = answer_line(decoder.decode(line), backups)
        except (PlanError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            failed = True
            answer = BatchError(f"line {number}: {error}")
            typer.echo(f"holdfast: {answer.error}", err=True)
        out.write(encoder.encode(answer) + b"\n")
        out.flush()
    if failed:
        raise typer.Exit(2)


def answer_line(line: BatchLine, backups: int) -> PlanReport:
    """The plan of one line."""
    current, target = read_row("current", line.current), read_row("target", line.target)
    return report_of(current, target, backups if line.backups is None else line.backups)


# --- reading -----------------------------------------------------------------------------------


def split_row(text: str) -> list[str | None]:
    """`A,B,-` as a list."""
    names = [name.strip() for name in text.split(",")]
    return [None if name == VACANT else name for name in names]


def read_row(which: str, names: list[str | None]) -> Replicas:
    """The names of a row as members, if they can be."""
    if len(names) > REPLICA_COUNT_MAX:
        raise PlanError(
            f"the {which} row has {len(names)} replicas; at most {REPLICA_COUNT_MAX} are possible"
        )
    for index, name in enumerate(names):
        if name == "":
            raise PlanError(f"the {which} row has an empty name at index {index}; - is vacant")
        if name is not None and not name.isprintable():
            raise PlanError(f"the {which} row has an unprintable name at index {index}: {name!r}")
    return tuple(None if name is None else MemberId(name) for name in names)


def report_of(current: Replicas, target: Replicas, backups: int) -> PlanReport:
    """Repair, plan, and replay the steps. The shorter row is padded with vacancies."""
    length = max(len(current), len(target))
    current += (None,) * (length - len(current))
    target += (None,) * (length - len(target))
    check_rows(current, target)
    repaired, kept = repair_cycles(current, target)
    report = PlanReport(repaired, kept, [], [])
    row = current
    for step in plan(current, repaired, backups):
        row = apply_step(row, step)
        report.steps.append(row)
        report.migrations += [migration_of(move, last=move is step[-1]) for move in step]
    return report


def migration_of(move: Move, *, last: bool) -> Migration:
    """A move as it is written."""
    return Migration(
        type=move.type.value,
        source=move.source,
        source_current_index=move.source_current,
        source_new_index=move.source_new,
        destination=move.destination,
        destination_current_index=move.destination_current,
        destination_new_index=move.destination_new,
        atomic_with_next=not last,
    )


# --- writing -----------------------------------------------------------------------------------


def lines_of(current: Replicas, report: PlanReport) -> list[str]:
    """The plan as a table: a line for each migration, with the row after each step."""
    length = len(report.target)
    table = [
        ("step", "type", "source", "destination", "commit", "replicas", "live"),
        ("", "", "", "", "", *row_cells(current + (None,) * (length - len(current)))),
    ]
    step, joined = 1, False
    for migration in report.migrations:
        last = not migration.atomic_with_next
        table.append(
            (
                str(step),
                migration.type,
                end_cell(
                    migration.source,
                    migration.source_current_index,
                    migration.source_new_index,
                ),
                end_cell(
                    migration.destination,
                    migration.destination_current_index,
                    migration.destination_new_index,
                ),
                ("with previous" if joined else "alone") if last else "atomic with next",
                *(row_cells(report.steps[step - 1]) if last else ("", "")),
            )
        )
        step, joined = step + last, not last
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table]
    if not report.migrations:
        lines.append("nothing to do")
    if report.kept:
        slots = ", ".join(map(str, report.kept))
        lines.append(f"kept as they are, since their members only change places: indexes {slots}")
        lines.append(f"target without that cycle: {row_cells(report.target)[0]}")
    return lines


def row_cells(row: Replicas) -> tuple[str, str]:
    """A row as it is given on the command line, and its live copies."""
    names = [VACANT if member is None else member for member in row]
    return ",".join(names), str(len(row) - row.count(None))


def end_cell(member: str | None, current: int, new: int) -> str:
    """A participant with its indexes: `A 0 -> 1`; `-` for nobody and for no index."""
    if member is None:
        return VACANT
    now, then = (VACANT if index == NO_INDEX else str(index) for index in (current, new))
    return f"{member} {now} -> {then}"
