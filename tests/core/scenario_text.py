"""How messages, effects and rows read in a scenario's trace: short, stable, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.core import data_messages as d
from holdfast.core import effects
from holdfast.core import messages as m
from holdfast.core.migrations import Step
from holdfast.core.table import Row
from holdfast.core.views import Drain, Kind, Member, View
from holdfast.ids import NO_INDEX, Replicas

NOISE: tuple[type, ...] = (
    m.Heartbeat,
    m.Grant,
    m.Hello,
    d.BackupFrame,
    d.BackupAck,
    d.ReplicaCheck,
)
"""What is always under way, and is shown only by `verbose on`."""

ROWS_SHOWN = 4


def replicas(row: Replicas) -> str:
    """`[A,-,C]`."""
    return f"[{','.join(member or '-' for member in row)}]"


def rows(many: Iterable[Row]) -> str:
    """`p0 v2 [A,B,C]`, or how many there are."""
    many = tuple(many)
    if len(many) > ROWS_SHOWN:
        return f"{len(many)} rows"
    return ", ".join(f"p{row.partition} v{row.version} {replicas(row.replicas)}" for row in many)


def stay(member: Member) -> str:
    """`D`, `D lite`, `D leaving`."""
    words = [member.name]
    if member.kind is Kind.LITE:
        words.append("lite")
    if member.drain is not Drain.NONE:
        words.append(member.drain.value)
    return " ".join(words)


def view(held: View | None) -> str:
    """`view 1.3 of A [A,B,C] ACTIVE`."""
    if held is None:
        return "no view"
    members = ",".join(stay(member) for member in held.members)
    marks = f"{' recovering' if held.recovering else ''}{' stable' if held.stable > (0, 0) else ''}"
    return (
        f"view {held.term}.{held.version} of {held.master} [{members}] {held.state}"
        f" level {held.level}{marks}"
    )


def completed(entries: Iterable[m.Completed]) -> str:
    """`, 1/1 success`."""
    return "".join(f", {number(e.migration.id)} {e.outcome}" for e in entries)


def number(migration: m.MigrationId) -> str:
    """`1/2`: the term, and the number in it."""
    return f"{migration.term}/{migration.sequence}"


def migration(one: m.Migration) -> str:
    """`1/2 p0 v1 [A,B] => [C,B]`."""
    change = f"{replicas(one.before)} => {replicas(one.after)}"
    return f"{number(one.id)} p{one.partition} v{one.version_before} {change}"


def reason(text: str, good: str) -> str:
    """The good word, or why not."""
    return f"no: {text}" if text else good


def report(message: m.Report) -> str:
    """What a member knows."""
    parts = [rows(message.rows) or "same table"]
    parts += [f"completed {migration(e.migration)} {e.outcome}" for e in message.completed]
    parts += [f"active {migration(one)}" for one in message.active]
    return "; ".join(parts)


def asked(message: m.Request) -> str:
    """What an administrator asked."""
    target = {m.Ask.STATE: f" {message.state}", m.Ask.LEVEL: f" {message.level}"}
    return f"{message.id} {message.ask}{target.get(message.ask, '')}"


def claim(message: m.Claim) -> str:
    """A claim, or the question whether it would be granted."""
    return f"term {message.term}{' (probe)' if message.probe else ''}"


def promise(message: m.Promise) -> str:
    """The answer to it."""
    word = "granted" if message.granted else "refused"
    return f"term {message.claimed} {word}{' (probe)' if message.probe else ''}"


def places(partitions: Iterable[int]) -> str:
    """` p0 p3`."""
    return "".join(f" p{partition}" for partition in partitions)


def fragment(name: bytes) -> str:
    """The name of a fragment."""
    return name.decode() or "internal"


def ways(plans: Iterable[d.FragmentPlan]) -> str:
    """`default: changes`."""
    words = [f"{fragment(plan.owner.name)}: {plan.way}" for plan in plans]
    return ", ".join(words) or "nothing"


DESCRIBE: dict[type, Callable[[Any], str]] = {
    m.JoinRequest: lambda x: f"{stay(x.member)} incarnation {x.member.incarnation}",
    m.Redirect: lambda x: f"to {x.master}",
    m.Refusal: lambda x: f"{x.about}: {x.error}: {x.message}",
    m.Claim: claim,
    m.Promise: promise,
    m.NewView: lambda x: view(x.view),
    m.NotListed: lambda x: view(x.view),
    m.NewerTerm: lambda x: f"term {x.term}",
    m.Farewell: lambda x: f"incarnation {x.incarnation}",
    m.Fetch: lambda x: f"term {x.view.term}",
    m.Report: report,
    m.Publication: lambda x: rows(x.rows) + completed(x.completed),
    m.MigrationRequest: lambda x: migration(x.migration) + completed(x.completed),
    m.FragmentPush: lambda x: (
        f"{number(x.migration.id)} p{x.migration.partition} v{x.migration.version_before}"
        f"{completed(x.completed)}"
    ),
    m.FragmentAck: lambda x: f"{number(x.id)} p{x.partition} {reason(x.reason, 'received')}",
    m.MigrationReady: lambda x: f"{number(x.id)} p{x.partition} {reason(x.reason, 'ready')}",
    m.CommitRequest: lambda x: (
        f"{number(x.migration.id)} p{x.migration.partition} v{x.migration.version_committed}"
        f" {replicas(x.migration.after)}"
    ),
    m.CommitAck: lambda x: f"{number(x.id)} p{x.partition}",
    m.Request: asked,
    m.RequestDone: lambda x: f"{x.id} {view(x.view)}",
    m.RequestPending: lambda x: f"{x.id} {x.reason}",
    m.Prepare: lambda x: f"{x.id} view {x.term}.{x.version}",
    m.PrepareAck: lambda x: f"{x.id} {reason(x.reason, 'locked')}",
    m.Abort: lambda x: x.id,
    m.StablePublication: lambda x: rows(x.stable.rows),
    d.BackupFrame: lambda x: (
        f"{x.number}{places(run.partition for run in x.runs)}"
        f"{' and where it stands:' if x.checks else ''}"
        f"{places(check.partition for check in x.checks)}"
    ),
    d.BackupAck: lambda x: f"{x.number}{' but' if x.doubted else ''}{places(x.doubted)}",
    d.ReplicaCheck: lambda x: f"p{x.partition}",
    d.SyncAsk: lambda x: f"p{x.partition} for {x.index}",
    d.SyncPlan: lambda x: f"p{x.partition} {reason(x.reason, ways(x.fragments))}",
    d.SyncPull: lambda x: f"p{x.partition} {fragment(x.name)}",
    d.SyncPage: lambda x: f"p{x.partition} {fragment(x.name)}",
    d.SyncEnd: lambda x: f"p{x.partition}",
    m.Heartbeat: lambda x: f"view {x.term}.{x.version}",
    m.Grant: lambda x: "serve" if x.serve else "wait",
}


def message(one: m.Message) -> str:
    """`CommitRequest 1/1 p0 v2 [D,B,C]`."""
    kind = type(one)
    text = DESCRIBE[kind](one) if kind in DESCRIBE else ""
    return f"{kind.__name__} {text}".strip()


def record(one: effects.Record) -> str:
    """What goes to stable storage; empty for what is not worth a line."""
    match one:
        case effects.RowsRecord(rows=changed, fresh=fresh):
            return f"{'forgets the table ' if fresh else ''}{rows(changed)}".strip()
        case effects.StableRecord(stable=stable):
            return "no stable table" if stable is None else f"stable table {rows(stable.rows)}"
        case effects.FragmentRecord(partition=partition, fragment=fragment):
            return f"p{partition} {'dropped' if fragment is None else 'data'}"
        case _:
            return ""


def effect(one: effects.Effect) -> str:
    """What a node does besides sending; empty for what is not worth a line."""
    match one:
        case effects.Notice(kind=kind, about=about, detail=detail):
            return f"{kind}: {about}{f', {detail}' if detail and detail != about else ''}"
        case effects.Answer(request=request, error=error, message=text):
            return f"answers {request}: {f'{error}: {text}' if error else 'done'}"
        case effects.Pending(request=request, reason=why):
            return f"{request} waits: {why}"
        case effects.Persist(record=kept):
            text = record(kept)
            return f"persists {text}" if text else ""
        case effects.Stop():
            return "stops"
        case _:
            return ""


def step(moves: Step) -> str:
    """`SHIFT UP B 2 to 1`; moves that are committed together stand in one line."""
    words = []
    for move in moves:
        parts = []
        if move.destination is not None:
            origin = "" if move.destination_current == NO_INDEX else f" {move.destination_current}"
            parts.append(f"{move.destination}{origin} to {move.destination_new}")
        if move.source is not None:
            target = "out" if move.source_new == NO_INDEX else f"to {move.source_new}"
            parts.append(f"{move.source} {move.source_current} {target}")
        words.append(f"{move.type.value} {', '.join(parts)}")
    return " + ".join(words)
