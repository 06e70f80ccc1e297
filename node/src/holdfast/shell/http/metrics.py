"""`/metrics`: what this member knows, in the text format of Prometheus.

Each member tells its own part, so that sums over members are sums over the cluster. What only the
master knows is told by the master alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.core.node import Node
from holdfast.core.observing import held_by, lags, migrations, name_sizes, unready
from holdfast.core.states import ClusterState
from holdfast.ids import Millis
from holdfast.shell.http.ports import MemberPort
from holdfast.wire.api import METRICS_PREFIX, text_of

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One number with its labels."""

    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """Numbers of one name."""

    name: str
    text: str
    samples: tuple[Sample, ...]
    counter: bool = False


def metrics_text(member: MemberPort) -> str:
    """Everything."""
    return "".join(_written(family) for family in _families(member))


def _written(family: Family) -> str:
    name = METRICS_PREFIX + family.name
    kind = "counter" if family.counter else "gauge"
    lines = [f"# HELP {name} {family.text}", f"# TYPE {name} {kind}"]
    for sample in family.samples:
        labels = ",".join(f'{key}="{_escaped(text)}"' for key, text in sample.labels.items())
        number = float(sample.value)
        lines.append(f"{name}{{{labels}}} {number}" if labels else f"{name} {number}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _one(name: str, text: str, value: float, *, counter: bool = False) -> Family:
    return Family(name, text, (Sample(value, {}),), counter)


def _many(name: str, text: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Family:
    return Family(name, text, tuple(Sample(value, labels) for labels, value in values))


def _families(member: MemberPort) -> Iterator[Family]:
    node, now = member.node, member.now()
    yield from _of_membership(node, now)
    yield from _of_partitions(node)
    yield from _of_replication(node, now)
    yield from _of_names(node)
    yield from _of_memory(node)
    if node.is_master:
        yield from _of_master(node)
    for figure in member.figures():
        yield _one(figure.name, figure.text, figure.value, counter=figure.counter)


def _of_membership(node: Node, now: Millis) -> Iterator[Family]:
    view = node.view
    members = () if view is None else view.members
    kinds = [member.kind.value for member in members]
    yield _one("ready", "Whether applications are served here.", not unready(node, now))
    yield _one("is_master", "Whether this member leads the cluster.", node.is_master)
    yield _many(
        "members",
        "Members of the newest list that this member knows.",
        [({"kind": kind}, kinds.count(kind)) for kind in ("data", "lite")],
    )
    yield _one("term", "Number of the mastership.", 0 if view is None else view.term)
    yield _many(
        "state",
        "State of the cluster: 1 for the one that holds.",
        [({"state": each}, view is not None and view.state is each) for each in ClusterState],
    )


def _of_partitions(node: Node) -> Iterator[Family]:
    owned, backups = held_by(node.table.rows, node.me.id)
    yield _many(
        "partitions",
        "Partitions that this member holds by the table.",
        [({"role": "owner"}, owned), ({"role": "backup"}, backups)],
    )
    here = node.data.holdings.here.values()
    lacking = sum(holding.index > 0 and holding.lacking() for holding in here)
    yield _one("copies_lacking", "Backups here that know that they lack something.", lacking)
    yield _one(
        "migrations_here",
        "Migrations in which this member takes part.",
        len(node.active_migrations()),
    )
    yield _one("partition_table_version_sum", "Sum of all versions.", node.table.version_sum)


def _of_replication(node: Node, now: Millis) -> Iterator[Family]:
    told = lags(node, now)
    yield _many(
        "replication_unacknowledged_bytes",
        "Changes that a backup has not acknowledged.",
        [({"to": lag.member}, lag.bytes) for lag in told],
    )
    yield _many(
        "replication_silent_seconds",
        "How long a backup has acknowledged nothing of them.",
        [({"to": lag.member}, lag.silent_ms / 1_000) for lag in told],
    )
    pulling = node.data.pulling
    text = "Keys whose records came here to bring copies up to date."
    yield _one("sync_records_total", text, pulling.records, counter=True)
    text = "Keys and values of those records."
    yield _one("sync_bytes_total", text, pulling.bytes, counter=True)
    waiting = len(node.data.replication.barriers)
    yield _one("reigns_unconfirmed", "Partitions whose backups the new owner awaits.", waiting)


def _of_names(node: Node) -> Iterator[Family]:
    sizes = [(text_of(size.name), size) for size in name_sizes(node)]
    yield _many(
        "entries",
        "Keys here, by name and role.",
        [
            ({"name": name, "role": role}, count)
            for name, size in sizes
            for role, count in (("owner", size.owned_entries), ("backup", size.backup_entries))
        ],
    )
    yield _many(
        "data_bytes",
        "What they take, roughly.",
        [
            ({"name": name, "role": role}, count)
            for name, size in sizes
            for role, count in (("owner", size.owned_bytes), ("backup", size.backup_bytes))
        ],
    )


def _of_memory(node: Node) -> Iterator[Family]:
    config, context = node.context.config, node.context
    yield _one(
        "data_bytes_max", "What all data here may take; 0: no limit.", config.memory_max_bytes
    )
    yield _one("memory_full", "Whether commands that need more are refused.", context.memory_full)
    yield _one("disk_full", "Whether writes are refused for want of disk.", context.disk_full)


def _of_master(node: Node) -> Iterator[Family]:
    seen = migrations(node)
    yield _one("migrations_planned", "Steps of the present plan.", seen.planned)
    yield _one("migrations_completed", "Steps of it that succeeded.", seen.completed)
    yield _one("migrations_failed", "Steps of it that failed.", seen.failed)
    yield _one("migrations_running", "Steps under way.", len(seen.running))
    pending = node.leadership.transition.under_way
    yield _one("state_change_pending", "Whether a change of the state waits.", pending)
