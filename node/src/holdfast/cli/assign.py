"""`holdfast assign`: how evenly partitions are assigned, and what a join or a leave would move.

It needs no cluster: the members are made up, the assignment is the one that the master uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import typer
from typer.core import TyperCommand

from holdfast.core.assignment import Candidate, assign_now, least_copies
from holdfast.core.distance import distance
from holdfast.errors import IllegalArgument
from holdfast.ids import (
    PARTITION_COUNT_DEFAULT,
    PARTITION_COUNT_MAX,
    REPLICA_COUNT_MAX,
    MemberId,
    Replicas,
)

MEMBERS_MAX: Final = 1_000
"""More would only make the table unreadable."""

ORDER: Final = "holdfast.assign.order"
"""Where the order of the options is kept between parsing and running."""

Table = tuple[Replicas, ...]


class Output(StrEnum):
    """How the figures are written."""

    TEXT = "text"
    JSON = "json"


class Span(msgspec.Struct, frozen=True):
    """The fewest and the most that a member has of something."""

    min: int
    max: int


class Stage(msgspec.Struct):
    """The table after one change, as it is written to JSON."""

    change: str
    members: int
    groups: int
    moved: int
    """Copies to make: (partition, member) pairs that are new."""
    least_possible: int
    owners_changed: int
    indexes_changed: int
    """Members that stay in a row at another index; no data moves."""
    owners: Span
    owners_spread_percent: float
    """Most less fewest, relative to the mean."""
    copies: Span
    """Copies by member, at all indexes together."""
    indexes: list[Span]
    """Copies by member at each index that has any."""
    table: Table | msgspec.UnsetType = msgspec.UNSET


class Report(msgspec.Struct):
    """All stages, as they are written to JSON."""

    partitions: int
    replicas: int
    stages: list[Stage]


class Change(NamedTuple):
    """One change of the membership, in the order of the command line."""

    kind: str
    name: str


class InOrder(TyperCommand):
    """A command that remembers in which order its options were given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note the name of each option, then parse as ever."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


# --- the command -------------------------------------------------------------------------------


def assign_command(
    context: typer.Context,
    *,
    members: Annotated[
        int, typer.Option(min=1, max=MEMBERS_MAX, help="Data members, called m1, m2 and so on.")
    ],
    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Failure domains g1, g2 and so on; members take turns, and one that joins goes to"
            " the smallest. Without it each member is a group of its own.",
        ),
    ] = None,
    partitions: Annotated[
        int, typer.Option(min=1, max=PARTITION_COUNT_MAX, help="Partitions of the table.")
    ] = PARTITION_COUNT_DEFAULT,
    replicas: Annotated[
        int, typer.Option(min=1, max=REPLICA_COUNT_MAX, help="An owner and its backups.")
    ] = REPLICA_COUNT_MAX,
    after_leave: Annotated[
        list[str] | None,
        typer.Option(help="A member that leaves then. May be repeated; the order counts."),
    ] = None,
    after_join: Annotated[
        list[str] | None,
        typer.Option(help="A member that joins then. May be repeated; the order counts."),
    ] = None,
    output: Annotated[Output, typer.Option(help="A table to read, or JSON.")] = Output.TEXT,
    table: Annotated[
        bool, typer.Option("--table", help="In JSON: the rows of each table as well.")
    ] = False,
) -> None:
    """Assign partitions to members, and say how even it is and what each change moves.

    Example: holdfast assign --members 4 --groups 2 --after-leave m2 --after-join m5
    """
    if groups is not None and groups > members:
        raise IllegalArgument(f"{groups} groups for {members} members: some would be empty")
    if table and output is Output.TEXT:
        raise IllegalArgument("--table needs --output json")
    changes = in_order(context.meta[ORDER], after_leave or [], after_join or [])
    memberships = list(memberships_of(members, groups, changes))
    report = report_of(memberships, partitions, replicas, rows=table)
    if output is Output.JSON:
        typer.echo(msgspec.json.encode(report))
    else:
        typer.echo("\n".join(lines_of(report)))


def in_order(order: Iterable[str], leaves: Sequence[str], joins: Sequence[str]) -> list[Change]:
    """The changes as they were given: the values by kind, the kinds by the order of options."""
    left = {
        "after_leave": [Change("leave", name) for name in reversed(leaves)],
        "after_join": [Change("join", name) for name in reversed(joins)],
    }
    return [left[option].pop() for option in order if option in left]


# --- the figures -------------------------------------------------------------------------------


def memberships_of(
    count: int, groups: int | None, changes: Sequence[Change]
) -> Iterable[tuple[str, list[Candidate]]]:
    """The members at first and after each change. Refuses changes that can't be."""
    names = [f"g{number + 1}" for number in range(groups or 0)]
    members: list[Candidate] = []
    for number in range(count):
        members = joined(members, f"m{number + 1}", names)
    yield "fresh", members
    for change in changes:
        known = [member.id for member in members]
        if change.kind == "join":
            if change.name in known:
                raise IllegalArgument(f"{change.name} can't join: it is a member already")
            if not change.name.isprintable() or not change.name.strip():
                raise IllegalArgument(f"{change.name!r} can't join: a name is printable")
            members = joined(members, change.name, names)
        else:
            if change.name not in known:
                raise IllegalArgument(f"{change.name} can't leave: it is no member")
            members = [member for member in members if member.id != change.name]
        yield f"{change.kind} {change.name}", members


def joined(members: list[Candidate], name: str, groups: Sequence[str]) -> list[Candidate]:
    """The members with one more, in the smallest group; without groups, in its own."""
    taken = [member.group for member in members]
    group = min(groups, key=taken.count) if groups else name
    return [*members, Candidate(MemberId(name), group)]


def report_of(
    memberships: Sequence[tuple[str, list[Candidate]]],
    partitions: int,
    replicas: int,
    *,
    rows: bool,
) -> Report:
    """Assign for each membership in turn, each time from the table before."""
    current: Table = ((None,) * replicas,) * partitions
    report = Report(partitions, replicas, [])
    for change, members in memberships:
        target = assign_now(members, current, replicas)
        report.stages.append(stage_of(change, members, current, target))
        if rows:
            report.stages[-1].table = target
        current = target
    return report


def stage_of(change: str, members: Sequence[Candidate], current: Table, target: Table) -> Stage:
    """The figures of one table, and of the way to it."""
    replicas = len(target[0])
    way = distance(current, target)
    counts = counts_of(members, target)
    owners = span(counts[0])
    return Stage(
        change=change,
        members=len(members),
        groups=len({member.group for member in members}),
        moved=way.copies,
        least_possible=least_copies(members, current, replicas),
        owners_changed=way.owners,
        indexes_changed=way.indexes,
        owners=owners,
        owners_spread_percent=round(
            100 * (owners.max - owners.min) * len(members) / len(target), 1
        ),
        copies=span([sum(of_member) for of_member in zip(*counts, strict=True)]),
        indexes=[span(at_index) for at_index in counts[: len(members)]],
    )


def counts_of(members: Sequence[Candidate], table: Table) -> list[list[int]]:
    """Partitions by index, then by member."""
    numbers = {member.id: number for number, member in enumerate(members)}
    counts = [[0] * len(members) for _ in table[0]]
    for row in table:
        for index, member in enumerate(row):
            if member is not None:
                counts[index][numbers[member]] += 1
    return counts


def span(counts: Sequence[int]) -> Span:
    """Fewest and most; nothing where there is no member."""
    return Span(min(counts, default=0), max(counts, default=0))


# --- writing -----------------------------------------------------------------------------------


def lines_of(report: Report) -> list[str]:
    """Two tables: what each change moves, and how even the result is."""
    moves = [("change", "members", "groups", "moved", "least", "owners", "indexes", "spread")]
    widest = max(len(stage.indexes) for stage in report.stages)
    evenness: list[tuple[str, ...]] = [
        ("change", "copies", *(f"index {index}" for index in range(widest)))
    ]
    for stage in report.stages:
        moves.append(
            (
                stage.change,
                str(stage.members),
                str(stage.groups),
                str(stage.moved),
                str(stage.least_possible),
                str(stage.owners_changed),
                str(stage.indexes_changed),
                f"{stage.owners_spread_percent} %",
            )
        )
        cells = [span_cell(span) for span in (stage.copies, *stage.indexes)]
        evenness.append((stage.change, *cells, *[""] * (widest - len(stage.indexes))))
    return [
        f"{report.partitions} partitions of {report.replicas} replicas",
        "",
        "What moves: copies to make, against the least possible; owners and indexes that change;",
        "spread of owners, most less fewest relative to the mean.",
        *aligned(moves),
        "",
        "What each member holds, fewest..most: all copies, and those at each index.",
        *aligned(evenness),
    ]


def span_cell(span: Span) -> str:
    """`67..68`"""
    return f"{span.min}..{span.max}"


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """The first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join((cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:]))).rstrip()
        for cells in table
    ]
