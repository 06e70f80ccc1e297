"""Specs that can't work, each with a part of the sentence that says why.

The same list is judged by the rules in Python, by the webhook, and, where one runs, by CEL in a
real API server. `old` makes it a change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Bad:
    """One of them."""

    name: str
    spec: dict[str, Any]
    sentence: str
    old: dict[str, Any] | None = None
    by_webhook: bool = False
    """CEL can't say it."""
    by_form: bool = False
    """The definition's own limits refuse it, in their own words."""
    kind: str = field(default="Cluster")


NOWHERE: Final = {"identity": "5d2f4a0e-3a52-4d0f-9d1c-0f6f6f6f6f6f", "backup": "a"}
ORIGIN: Final = {**NOWHERE, "cluster": "old"}

STORE: Final = {"bucket": "b", "credentials": "c"}

BAD: Final = (
    Bad("too few members", {"members": 0}, "members", by_form=True),
    Bad("too many members", {"members": 101}, "members", by_form=True),
    Bad("no such state", {"state": "PAUSED"}, "state", by_form=True),
    Bad("in transition", {"state": "IN_TRANSITION"}, "state", by_form=True),
    Bad("too many partitions", {"partitions": 20_000}, "partitions", by_form=True),
    Bad("seven backups", {"backups": 7}, "backups", by_form=True),
    Bad("no such policy", {"persistence": {"recovery": {"policy": "Any"}}}, "policy", by_form=True),
    Bad("no quantity", {"persistence": {"size": "big"}}, "size", by_form=True),
    Bad("nameless structure", {"structures": [{"name": ""}]}, "name", by_form=True),
    Bad("strange name", {"structures": [{"name": "a b"}]}, "name", by_form=True),
    Bad(
        "no such eviction", {"structures": [{"name": "a", "eviction": "x"}]}, "evict", by_form=True
    ),
    Bad("no such service", {"service": {"type": "ExternalName"}}, "type", by_form=True),
    Bad("level 4", {"compatibilityLevel": 4}, "compatibilityLevel", by_form=True),
    Bad(
        "more copies than a partition has",
        {"members": 9, "structures": [{"name": "a", "backups": 4, "asyncBackups": 3}]},
        "at most 6 backups",
    ),
    Bad(
        "eviction of nothing",
        {"structures": [{"name": "a", "eviction": "lru"}]},
        "eviction needs a limit",
    ),
    Bad("promote nobody", {"lite": {"members": 1, "promote": 2}}, "promote can't be more than"),
    Bad("tiny volume", {"persistence": {"size": "100Mi"}}, "at least 512Mi"),
    Bad(
        "sleep without files",
        {"hibernate": True, "persistence": {"enabled": False}, "upgradeStrategy": "OnDelete"},
        "hibernate needs persistence",
    ),
    Bad(
        "stable without files",
        {"persistence": {"enabled": False}},
        "RollingStable needs persistence",
    ),
    Bad("twice", {"structures": [{"name": "a"}, {"name": "a"}]}, "have the same name"),
    Bad(
        "promotion at level 1",
        {"compatibilityLevel": 1, "lite": {"members": 1, "promote": 1}},
        "needs compatibilityLevel 2",
    ),
    Bad("fewer partitions than members", {"members": 9, "partitions": 8}, "at least members"),
    Bad("a lone member with a backup", {"members": 1}, "backups must be fewer"),
    Bad(
        "a structure with too many backups",
        {"structures": [{"name": "a", "backups": 3}]},
        "of each structure must be fewer",
    ),
    Bad("other partitions", {"partitions": 8}, "partitions can't be changed", old={}),
    Bad("other level", {"compatibilityLevel": 2}, "compatibilityLevel can't be", old={}),
    Bad("shrinks", {"persistence": {"size": "1Gi"}}, "a volume never shrinks", old={}),
    Bad(
        "no more files",
        {"persistence": {"enabled": False}, "upgradeStrategy": "OnDelete"},
        "persistence.enabled can't be changed",
        old={},
    ),
    Bad(
        "another class",
        {"persistence": {"storageClassName": "fast"}},
        "storageClassName can't be changed",
        old={},
    ),
    Bad("other domains", {"availability": {"spread": "Zone"}}, "spread can't be changed", old={}),
    Bad("scaled to one", {"members": 1}, "backups must be fewer", old={"members": 3}),
    Bad(
        "our own variable",
        {"podTemplate": {"env": [{"name": "HOLDFAST_NAME", "value": "x"}]}},
        "is set by the operator",
        by_webhook=True,
    ),
    Bad(
        "a variable without a name",
        {"podTemplate": {"env": [{"value": "x"}]}},
        "has no name",
        by_webhook=True,
    ),
    Bad(
        "a request beyond its limit",
        {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}},
        "more than its limit",
        by_webhook=True,
    ),
    Bad(
        "a strange amount",
        {"resources": {"requests": {"memory": "much"}}},
        "is no quantity",
        by_webhook=True,
    ),
    Bad(
        "a changed backup",
        {"cluster": "other"},
        "a Backup can't be changed",
        old={"cluster": "orders"},
        kind="Backup",
    ),
    Bad("a backup of nothing", {"cluster": ""}, "cluster", by_form=True, kind="Backup"),
    Bad(
        "two places",
        {
            "cluster": "a",
            "target": {"claim": "b", "objectStore": {"bucket": "b", "credentials": "c"}},
        },
        "either a claim or an objectStore",
        kind="Backup",
    ),
    Bad(
        "a bucket of no name",
        {"cluster": "a", "target": {"objectStore": {"bucket": "a b", "credentials": "c"}}},
        "bucket",
        by_form=True,
        kind="Backup",
    ),
    Bad(
        "a place outside of the claim",
        {"cluster": "a", "target": {"claim": "b", "path": "../c"}},
        "path",
        by_form=True,
        kind="Backup",
    ),
    Bad(
        "a schedule in words",
        {"cluster": "a", "schedule": "every day"},
        "five fields of numbers",
        kind="BackupSchedule",
    ),
    Bad(
        "an hour that there is not",
        {"cluster": "a", "schedule": "0 24 * * *"},
        "five fields of numbers",
        by_webhook=True,
        kind="BackupSchedule",
    ),
    Bad(
        "none is to be kept",
        {"cluster": "a", "schedule": "0 3 * * *", "keep": 0},
        "keep",
        by_form=True,
        kind="BackupSchedule",
    ),
    Bad(
        "a schedule of another cluster",
        {"cluster": "b", "schedule": "0 3 * * *"},
        "the cluster of a BackupSchedule can't be changed",
        old={"cluster": "a", "schedule": "0 3 * * *"},
        kind="BackupSchedule",
    ),
    Bad(
        "a restore of nothing",
        {"source": {}, "cluster": {"name": "copy"}},
        "either a backup or where it is kept",
        kind="Restore",
    ),
    Bad(
        "a restore of two backups",
        {"source": {"backup": "a", "kept": {"claim": "b"}}, "cluster": {"name": "copy"}},
        "either a backup or where it is kept",
        kind="Restore",
    ),
    Bad(
        "a restore without files",
        {
            "source": {"backup": "a"},
            "cluster": {
                "name": "copy",
                "spec": {"persistence": {"enabled": False}, "upgradeStrategy": "OnDelete"},
            },
        },
        "a restored Cluster needs persistence.enabled",
        kind="Restore",
    ),
    Bad(
        "a restore that sleeps",
        {"source": {"backup": "a"}, "cluster": {"name": "copy", "spec": {"hibernate": True}}},
        "can't hibernate",
        kind="Restore",
    ),
    Bad(
        "a restore with an origin",
        {"source": {"backup": "a"}, "cluster": {"name": "copy", "spec": {"origin": ORIGIN}}},
        "says itself what the origin is",
        kind="Restore",
    ),
    Bad(
        "a restore into a bad cluster",
        {"source": {"backup": "a"}, "cluster": {"name": "copy", "spec": {"members": 1}}},
        "backups must be fewer",
        kind="Restore",
    ),
    Bad(
        "a restore into a cluster of a strange pod",
        {
            "source": {"backup": "a"},
            "cluster": {"name": "copy", "spec": {"podTemplate": {"env": [{"name": "NODE_NAME"}]}}},
        },
        "is set by the operator",
        by_webhook=True,
        kind="Restore",
    ),
    Bad(
        "a restore with a strange name",
        {"source": {"backup": "a"}, "cluster": {"name": "Copy"}},
        "name",
        by_form=True,
        kind="Restore",
    ),
    Bad(
        "a changed restore",
        {"source": {"backup": "b"}, "cluster": {"name": "copy"}},
        "a Restore can't be changed",
        old={"source": {"backup": "a"}, "cluster": {"name": "copy"}},
        kind="Restore",
    ),
    Bad(
        "another origin",
        {"origin": {**ORIGIN, "backup": "b"}},
        "origin can't be changed",
        old={"origin": ORIGIN},
    ),
    Bad(
        "an origin without files",
        {"origin": ORIGIN, "persistence": {"enabled": False}, "upgradeStrategy": "OnDelete"},
        "origin needs persistence.enabled",
    ),
    Bad("an origin of nowhere", {"origin": NOWHERE}, "either a cluster or a place"),
)
