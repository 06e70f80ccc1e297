"""Carrying out a plan, in its order; what fails is tried again with the next plan."""

from __future__ import annotations

import base64
import logging
import secrets
from datetime import UTC, datetime
from typing import Any, Final

from holdfast_operator.actions import (
    Action,
    Apply,
    BackUp,
    ChangeState,
    ConfirmDead,
    Delete,
    Demote,
    Event,
    Finalizers,
    Forget,
    Grow,
    MakeSecret,
    Promote,
    StopAsking,
)
from holdfast_operator.builders.common import SECRET_KEY, metadata
from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.kubernetes.errors import ApiRefused, Conflict, Missing
from holdfast_operator.model.cluster import Reclaim
from holdfast_operator.names import API_VERSION, MANAGER
from holdfast_operator.observed import Observed, RestoreObserved
from holdfast_operator.plan import Plan, RestorePlan
from holdfast_operator.running.observing import Memory

LOG: Final = logging.getLogger("holdfast.operator.applying")
ASKS: Final = (ChangeState, Promote, Demote, ConfirmDead, BackUp, Forget)
SECRET_BYTES: Final = 32


async def apply(
    o: Observed, actions: tuple[Action, ...], memory: Memory, api: Kubernetes
) -> list[Event]:
    """All of it; what was refused, as events. One that is refused (a claim that may not grow) holds
    none of the others. An object that changed meanwhile is looked at again: that is no error."""
    memory.asking.want(
        {each.key: each for each in actions if isinstance(each, ASKS)}, memory.eye.client
    )
    refused = []
    for action in actions:
        if isinstance(action, ASKS):
            continue
        LOG.info("%s/%s: %s", o.namespace, o.name, described(action))
        try:
            await _carry_out(o, action, memory, api)
        except Conflict as error:
            LOG.info("%s/%s: looked at again: %s", o.namespace, o.name, error)
            break
        except ApiRefused as error:
            refused.append(Event("Refused", f"{described(action)}: {error}", warning=True))
    return refused


async def _carry_out(o: Observed, action: Action, memory: Memory, api: Kubernetes) -> None:
    match action:
        case Apply(body, only_new=True):
            await api.create(body["kind"], body)
        case Apply(body):
            await api.apply(body)
        case MakeSecret(name):
            await _make_secret(o, name, memory, api)
        case Delete(kind, name, uid):
            try:
                await api.delete(kind, o.namespace, name, uid)
            except Missing:
                LOG.info("%s %s is gone already", kind, name)
        case Grow(claim, storage):
            body = {"spec": {"resources": {"requests": {"storage": storage}}}}
            await api.merge("PersistentVolumeClaim", o.namespace, claim, body)
        case Finalizers(names):
            await api.merge("Cluster", o.namespace, o.name, {"metadata": {"finalizers": [*names]}})
        case StopAsking(key):
            memory.asking.stop(key)


async def _make_secret(o: Observed, name: str, memory: Memory, api: Kubernetes) -> None:
    """If somebody was quicker, theirs is the secret."""
    text = base64.b64encode(secrets.token_urlsafe(SECRET_BYTES).encode()).decode()
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(o, name),
        "type": "Opaque",
        "immutable": True,
        "data": {SECRET_KEY: text},
    }
    if o.spec.persistence.enabled and o.spec.persistence.reclaim is Reclaim.RETAIN:
        del body["metadata"]["ownerReferences"]  # claims that stay are of no use without it
    await api.create("Secret", body)
    memory.secret_exists = False  # it is read, and so known to be there


def described(action: Action) -> str:
    """An action in a few words, without what is secret or long."""
    if isinstance(action, Apply):
        return f"apply {action.body['kind']} {action.body['metadata']['name']}"
    return repr(action)


async def write_status(
    o: Observed, wanted: dict[str, Any], before: dict[str, Any], api: Kubernetes
) -> bool:
    """Only if it is another one; what is left out is removed. Whether it was written."""
    if wanted == before:
        return False
    gone = dict.fromkeys(before.keys() - wanted.keys())
    await api.merge("Cluster", o.namespace, o.name, {"status": {**wanted, **gone}}, part="status")
    return True


async def write_others(o: Observed, made: Plan, api: Kubernetes) -> None:
    """Of Backups and schedules: those that are other ones than before."""
    backups = {each.name: each.status for each in o.backups}
    schedules = {each.name: each.status for each in o.schedules}
    for name, status in made.backups.items():
        if status != backups[name]:
            body = {"status": status.wire()}
            await api.merge("Backup", o.namespace, name, body, part="status")
    for name, timed in made.schedules.items():
        if timed != schedules[name]:
            body = {"status": {**timed.wire(), "nextTime": timed.wire().get("nextTime")}}
            await api.merge("BackupSchedule", o.namespace, name, body, part="status")


async def carry_out_restore(
    r: RestoreObserved, made: RestorePlan, api: Kubernetes
) -> tuple[Event, ...]:
    """Its status, then its objects; what was refused, as events."""
    if made.status != r.status:
        body = {"status": made.status.wire()}
        await api.merge("Restore", r.namespace, r.name, body, part="status")
    refused = []
    for action in made.actions:
        assert isinstance(action, Apply), "a Restore makes objects, and does nothing else"
        LOG.info("%s/%s: %s", r.namespace, r.name, described(action))
        try:
            await api.create(action.body["kind"], action.body)
        except Conflict as error:
            LOG.info("%s/%s: looked at again: %s", r.namespace, r.name, error)
        except ApiRefused as error:
            refused.append(Event("Refused", f"{described(action)}: {error}", warning=True))
    return tuple(refused)


class Herald:
    """Tells events, each once in a while."""

    AGAIN_SECONDS: Final = 600.0
    KEPT_MAX: Final = 1_000

    def __init__(self, api: Kubernetes, me: str) -> None:
        self._api = api
        self._me = me
        self._told: dict[tuple[str, str, str], datetime] = {}

    async def tell(self, o: Observed | RestoreObserved, events: tuple[Event, ...]) -> None:
        """Those that were not told just now. An event that can't be told stops nothing."""
        for event in events:
            key = (o.uid, event.reason, event.message)
            last = self._told.get(key)
            if last is not None and (o.now - last).total_seconds() < self.AGAIN_SECONDS:
                continue
            while len(self._told) >= self.KEPT_MAX:
                del self._told[next(iter(self._told))]
            self._told[key] = o.now
            LOG.log(
                logging.WARNING if event.warning else logging.INFO,
                "%s/%s: %s: %s",
                o.namespace,
                o.name,
                event.reason,
                event.message,
            )
            try:
                await self._api.create("Event", self._body(o, event))
            except ApiRefused as error:
                LOG.warning("the event could not be told: %s", error)

    def _body(self, o: Observed | RestoreObserved, event: Event) -> dict[str, Any]:
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{o.name}.{secrets.token_hex(8)}", "namespace": o.namespace},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": o.kind,
                "name": o.name,
                "namespace": o.namespace,
                "uid": o.uid,
            },
            "reason": event.reason,
            "message": event.message[:1_000],
            "type": "Warning" if event.warning else "Normal",
            "source": {"component": MANAGER},
            "reportingComponent": MANAGER,
            "reportingInstance": self._me,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
