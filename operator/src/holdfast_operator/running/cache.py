"""What the watches have seen: kopf's indices, by cluster.

kopf holds back every handler until its indices are complete, so nothing is decided upon half of
what there is. The indices are kept up to date by the watches: reading them costs no request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast_operator.names import ZONE_LABEL
from holdfast_operator.observed import Raw

Key = tuple[str, str]
"""Namespace and name of a Cluster."""


class Index(Protocol):
    """As much of kopf's index as is needed."""

    def get(self, key: Key, default: Any = None) -> Iterable[Any] | None:
        """All objects under a key."""

    def __iter__(self) -> Any: ...


@dataclass(slots=True)
class Cache:
    """All indices, by kind."""

    indices: dict[str, Index] = field(default_factory=dict)
    sees_nodes: bool = True

    def of(self, kind: str, key: Key) -> list[Raw]:
        """Objects of one cluster, by name."""
        index = self.indices.get(kind)
        found = [] if index is None else [as_raw(each) for each in index.get(key) or ()]
        return sorted(found, key=lambda raw: raw["metadata"]["name"])

    def cluster(self, key: Key) -> Raw | None:
        """The Cluster itself."""
        found = self.of("Cluster", key)
        return found[0] if found else None

    def clusters(self) -> list[Key]:
        """All of them."""
        return sorted(self.indices.get("Cluster", ()))

    def restores(self) -> list[Key]:
        """All Restores, by their own names."""
        return sorted(self.indices.get("Restore", ()))

    def all(self, kind: str) -> list[Raw]:
        """Objects of a kind, of every cluster."""
        index = self.indices.get(kind)
        return [] if index is None else [as_raw(e) for key in index for e in index.get(key) or ()]

    def zones(self) -> Mapping[str, str] | None:
        """Of all nodes."""
        index = self.indices.get("Node")
        if index is None or not self.sees_nodes:
            return None
        nodes = [as_raw(each) for key in index for each in index.get(key) or ()]
        return {
            raw["metadata"]["name"]: raw["metadata"].get("labels", {}).get(ZONE_LABEL, "")
            for raw in nodes
        }


def as_raw(body: Any) -> Raw:
    """An object without kopf's dress."""
    return dict(body)
