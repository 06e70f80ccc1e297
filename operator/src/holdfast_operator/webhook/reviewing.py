"""One admission review: allowed, or refused with its sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast_operator.model.backup import BackupScheduleSpec, BackupSpec
from holdfast_operator.model.base import Model
from holdfast_operator.model.cluster import ClusterSpec
from holdfast_operator.model.restore import RestoreSpec
from holdfast_operator.validation import broken_rules, cluster_reasons, parsed, restore_reasons

SPECS: Final[Mapping[str, type[Model]]] = {
    "Cluster": ClusterSpec,
    "Backup": BackupSpec,
    "BackupSchedule": BackupScheduleSpec,
    "Restore": RestoreSpec,
}


def review(request: dict[str, Any], sees_zones: Callable[[], bool]) -> dict[str, Any]:
    """An `AdmissionReview` with a response for one with a request."""
    asked = request["request"]
    reasons = _reasons(asked, sees_zones=sees_zones())
    response: dict[str, Any] = {"uid": asked["uid"], "allowed": not reasons}
    if reasons:
        response["status"] = {"code": 422, "reason": "Invalid", "message": "; ".join(reasons)}
    return {
        "apiVersion": request["apiVersion"],
        "kind": request["kind"],
        "response": response,
    }


def _reasons(asked: Mapping[str, Any], *, sees_zones: bool) -> list[str]:
    if asked["operation"] not in ("CREATE", "UPDATE"):
        return []
    new, old = asked["object"], asked.get("oldObject") or {}
    if new.get("metadata", {}).get("deletionTimestamp"):
        return []  # a finalizer is taken away: never in the way of that
    kind = SPECS[asked["kind"]["kind"]]
    spec, reasons = parsed(kind, new.get("spec"))
    if spec is None:
        return reasons
    before, _ = parsed(kind, old.get("spec")) if old else (None, [])
    if isinstance(spec, ClusterSpec):
        assert before is None or isinstance(before, ClusterSpec)
        return cluster_reasons(spec, before, sees_zones=sees_zones)
    if isinstance(spec, RestoreSpec):
        return restore_reasons(spec, before, sees_zones=sees_zones)
    return list(broken_rules(spec, before))
