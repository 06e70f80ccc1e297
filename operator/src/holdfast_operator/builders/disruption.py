"""The PodDisruptionBudget: how many pods may be evicted now, from the copies that there are.

It counts all pods of members, lite ones too: a promoted one has partitions. A name without backups
is safe only where the state lets a leaving member hand its data over.
"""

from __future__ import annotations

from holdfast_operator.builders.common import metadata
from holdfast_operator.model.cluster import State
from holdfast_operator.names import CLUSTER_LABEL, COMPONENT
from holdfast_operator.observed import Observed, Raw


def budget(o: Observed) -> Raw:
    """As long as any partition misses a copy, nobody may be evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(o, o.name),
        "spec": {
            "maxUnavailable": max_unavailable(o),
            "selector": {"matchLabels": {CLUSTER_LABEL: o.name, COMPONENT: "member"}},
        },
    }


def max_unavailable(o: Observed) -> int:
    """How many holders may go at the same time."""
    if o.grid is None or not o.grid.safety.safe:
        return 0
    least = min(o.spec.backups_of_each)
    hands_over = o.grid.state.value == State.ACTIVE
    return max(least, 1 if hands_over else 0)
