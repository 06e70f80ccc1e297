"""Words of the interface that the core has defined: clients take them from here."""

from __future__ import annotations

from holdfast.core.states import ClusterState
from holdfast.core.views import Drain, Kind

__all__ = ["ClusterState", "Drain", "Kind"]
