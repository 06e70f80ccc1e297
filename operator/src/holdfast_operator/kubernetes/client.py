"""The verbs: get, list, create, apply, patch, delete. Every request is counted (`metrics.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import httpx

from holdfast_operator.kubernetes.access import Access
from holdfast_operator.kubernetes.errors import ApiUnreachable, refusal
from holdfast_operator.names import GROUP, MANAGER, VERSION
from holdfast_operator.observed import Raw

SECONDS: Final = 15.0
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"

Count = Callable[[str, str, int], None]
"""Verb, plural, code."""


@dataclass(frozen=True, slots=True)
class Plural:
    """Where objects of a kind are found."""

    prefix: str
    name: str
    namespaced: bool = True

    def path(self, namespace: str, name: str = "") -> str:
        """Of one object, or of all in a namespace; of all in the cluster without one."""
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.prefix}{place}/{self.name}" + (f"/{name}" if name else "")


CORE: Final = "/api/v1"
OWN: Final = f"/apis/{GROUP}/{VERSION}"
PLURALS: Final[Mapping[str, Plural]] = {
    "Cluster": Plural(OWN, "clusters"),
    "Backup": Plural(OWN, "backups"),
    "BackupSchedule": Plural(OWN, "backupschedules"),
    "Restore": Plural(OWN, "restores"),
    "Job": Plural("/apis/batch/v1", "jobs"),
    "ConfigMap": Plural(CORE, "configmaps"),
    "Secret": Plural(CORE, "secrets"),
    "Service": Plural(CORE, "services"),
    "Pod": Plural(CORE, "pods"),
    "PersistentVolumeClaim": Plural(CORE, "persistentvolumeclaims"),
    "Node": Plural(CORE, "nodes", namespaced=False),
    "Event": Plural(CORE, "events"),
    "StatefulSet": Plural("/apis/apps/v1", "statefulsets"),
    "PodDisruptionBudget": Plural("/apis/policy/v1", "poddisruptionbudgets"),
    "EndpointSlice": Plural("/apis/discovery.k8s.io/v1", "endpointslices"),
    "Lease": Plural("/apis/coordination.k8s.io/v1", "leases"),
    "ValidatingWebhookConfiguration": Plural(
        "/apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False
    ),
}


class Kubernetes:
    """One API server."""

    def __init__(
        self,
        access: Access,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        count: Count = lambda _, __, ___: None,
    ) -> None:
        self.access = access
        self._count = count
        self._client = httpx.AsyncClient(
            base_url=access.server,
            verify=access.context() if access.server.startswith("https") else True,
            timeout=httpx.Timeout(SECONDS),
            transport=transport,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, kind: str, namespace: str, name: str) -> Raw:
        """One object."""
        return await self._ask("get", kind, PLURALS[kind].path(namespace, name))

    async def list(self, kind: str, namespace: str = "", selector: str = "") -> list[Raw]:
        """Objects of a kind, in one namespace or in all."""
        query = {"labelSelector": selector} if selector else {}
        told = await self._ask("list", kind, PLURALS[kind].path(namespace), query=query)
        items: list[Raw] = told["items"]
        return items

    async def create(self, kind: str, body: Raw) -> Raw:
        """One that must not be there yet."""
        path = PLURALS[kind].path(body["metadata"].get("namespace", ""))
        return await self._ask("create", kind, path, body)

    async def replace(self, kind: str, body: Raw) -> Raw:
        """Exactly the version that the body names, by another one."""
        meta = body["metadata"]
        path = PLURALS[kind].path(meta.get("namespace", ""), meta["name"])
        return await self._ask("update", kind, path, body)

    async def apply(self, body: Raw) -> Raw:
        """Server-side apply: what is said is ours, whoever said it before."""
        kind, meta = body["kind"], body["metadata"]
        path = PLURALS[kind].path(meta.get("namespace", ""), meta["name"])
        query = {"fieldManager": MANAGER, "force": "true"}
        return await self._ask("apply", kind, path, body, query=query, content=APPLY)

    async def merge(
        self, kind: str, namespace: str, name: str, body: Raw, *, part: str = ""
    ) -> Raw:
        """Change some fields; `part` is a subresource."""
        path = PLURALS[kind].path(namespace, name) + (f"/{part}" if part else "")
        return await self._ask("patch", kind, path, body, content=MERGE)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Exactly this one."""
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        await self._ask("delete", kind, PLURALS[kind].path(namespace, name), body)

    async def _ask(
        self,
        verb: str,
        kind: str,
        path: str,
        body: Raw | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> Raw:
        methods = {"create": "POST", "update": "PUT", "apply": "PATCH", "patch": "PATCH"}
        method = methods.get(verb, "DELETE" if verb == "delete" else "GET")
        headers = {"accept": "application/json"}
        token = self.access.bearer()
        if token:
            headers["authorization"] = f"Bearer {token}"
        if body is not None:
            headers["content-type"] = content
        try:
            answer = await self._client.request(
                method,
                path,
                params=query,
                headers=headers,
                content=None if body is None else json.dumps(body),
            )
        except httpx.HTTPError as error:
            self._count(verb, PLURALS[kind].name, 0)
            text = f"{self.access.server} can't be asked: {error!r}"
            raise ApiUnreachable(text) from error
        self._count(verb, PLURALS[kind].name, answer.status_code)
        if not answer.is_success:
            raise refusal(answer.status_code, _message(answer))
        told: Raw = answer.json()
        return told


def _message(answer: httpx.Response) -> str:
    try:
        told = answer.json()
    except ValueError:
        return answer.text[:200]
    return str(told.get("message", "no reason given")) if isinstance(told, dict) else str(told)
