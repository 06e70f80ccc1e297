"""A small API server in memory, for the operator's shell: lists, watches, patches, preconditions.

It keeps objects as they are sent and checks no schema: what a real one refuses is tested with a
real one. Server-side apply is a merge that replaces lists, which is all that our objects need.
"""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from holdfast_operator.kubernetes.client import PLURALS

Raw = dict[str, Any]
STATUS_KINDS: Final = ("Cluster", "Backup", "BackupSchedule", "Restore")


@dataclass(frozen=True, slots=True)
class Address:
    """Of one object, or of all of a kind."""

    kind: str
    namespace: str
    name: str = ""


@dataclass(slots=True)
class Watch:
    """Somebody who wants to hear of changes."""

    address: Address
    selector: str
    queue: asyncio.Queue[Raw] = field(default_factory=asyncio.Queue)


class Refused(Exception):
    """An answer that is no."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def now() -> str:
    """As Kubernetes writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def merged(old: Any, new: Any) -> Any:
    """As a JSON merge patch."""
    if not isinstance(new, dict):
        return copy.deepcopy(new)
    made = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made


def fits(raw: Raw, selector: str) -> bool:
    """Whether the labels are as selected: `a=b` and `a`."""
    labels = raw["metadata"].get("labels", {})
    for part in filter(None, selector.split(",")):
        key, equals, value = part.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


class Store:
    """All objects."""

    def __init__(self) -> None:
        self.objects: dict[Address, Raw] = {}
        self.version = 100
        self.watches: list[Watch] = []
        self.requests: list[tuple[str, str]] = []
        self.listeners: list[Callable[[str, Raw], None]] = []

    def get(self, address: Address) -> Raw:
        """One, or a refusal."""
        if address not in self.objects:
            raise Refused(404, f"{address.kind} {address.name!r} not found")
        return self.objects[address]

    def of(self, kind: str, namespace: str = "", selector: str = "") -> list[Raw]:
        """All of a kind."""
        return [
            raw
            for address, raw in sorted(self.objects.items(), key=lambda each: each[0].name)
            if address.kind == kind and namespace in ("", address.namespace) and fits(raw, selector)
        ]

    def create(self, kind: str, body: Raw) -> Raw:
        """A new one."""
        meta = body["metadata"]
        address = Address(kind, meta.get("namespace", ""), meta["name"])
        if address in self.objects:
            raise Refused(409, f"{kind} {meta['name']!r} already exists")
        raw = copy.deepcopy(body)
        raw.setdefault("kind", kind)
        raw["metadata"] |= {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": now(),
            "generation": 1,
        }
        return self.put(address, raw, "ADDED")

    def put(self, address: Address, raw: Raw, what: str = "MODIFIED") -> Raw:
        """Keep it and tell who watches."""
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.objects[address] = raw
        self._tell(what, address, raw)
        return raw

    def _tell(self, what: str, address: Address, raw: Raw) -> None:
        event = {"type": what, "object": copy.deepcopy(raw)}
        for watch in self.watches:
            same = watch.address.namespace in ("", address.namespace)
            if watch.address.kind == address.kind and same and fits(raw, watch.selector):
                watch.queue.put_nowait(event)
        for listener in self.listeners:
            listener(what, raw)

    def change(self, address: Address, body: Raw, part: str = "") -> Raw:
        """A merge patch, or an apply, of the object or of its status."""
        old = self.get(address)
        version = body.get("metadata", {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise Refused(409, "the object has been modified")
        if part == "status":
            new = merged(old, {"status": body.get("status")})
        else:
            kept = {key: body[key] for key in body if key != "status"}
            new = merged(old, kept if address.kind in STATUS_KINDS else body)
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return self._settle(address, new)

    def replace(self, address: Address, body: Raw) -> Raw:
        """Exactly the version that is named."""
        old = self.get(address)
        if body["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
            raise Refused(409, "the object has been modified")
        new = copy.deepcopy(body)
        new["metadata"] = {**old["metadata"], **body["metadata"]}
        return self._settle(address, new)

    def delete(self, address: Address, uid: str = "") -> None:
        """Now, or when its finalizers are gone."""
        raw = copy.deepcopy(self.get(address))
        if uid and raw["metadata"]["uid"] != uid:
            raise Refused(409, "the uid is another one")
        if "deletionTimestamp" in raw["metadata"]:
            return
        raw["metadata"]["deletionTimestamp"] = now()
        self._settle(address, raw, hold=address.kind == "Pod")

    def _settle(self, address: Address, raw: Raw, *, hold: bool = False) -> Raw:
        deleting = "deletionTimestamp" in raw["metadata"]
        if deleting and not raw["metadata"].get("finalizers") and not hold:
            self.remove(address)
            return raw
        return self.put(address, raw)

    def remove(self, address: Address) -> None:
        """It is gone, with what it owns."""
        raw = self.objects.pop(address)
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", address, raw)
        uid = raw["metadata"]["uid"]
        for other, each in list(self.objects.items()):
            owners = [o["uid"] for o in each["metadata"].get("ownerReferences", ())]
            if uid in owners and other in self.objects:
                self.delete(other)


GROUPS: Final[Mapping[str, list[str]]] = {
    prefix: [kind for kind, plural in PLURALS.items() if plural.prefix == prefix]
    for prefix in {plural.prefix for plural in PLURALS.values()}
}


class ApiServer:
    """The store over HTTP."""

    def __init__(self) -> None:
        self.store = Store()
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ApiServer]:
        """On a free port of loopback."""
        app = web.Application(client_max_size=16 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            for watch in self.store.watches:
                watch.queue.put_nowait({"type": "END"})
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            found = self._discovery(request.path)
            if found is not None:
                return web.json_response(found)
            address, part = self._address(request.path)
            self.store.requests.append((request.method, address.kind))
            if request.method == "GET":
                return await self._get(request, address)
            body = await request.json() if request.can_read_body else {}
            return web.json_response(self._write(request, address, part, body))
        except Refused as error:
            told = {"kind": "Status", "message": str(error), "code": error.code}
            return web.json_response(told, status=error.code)

    def _write(self, request: web.Request, address: Address, part: str, body: Raw) -> Raw:
        store, method = self.store, request.method
        if method == "POST":
            body["metadata"].setdefault("namespace", address.namespace)
            return store.create(address.kind, body)
        if method == "PUT":
            return store.replace(address, body)
        if method == "DELETE":
            store.delete(address, body.get("preconditions", {}).get("uid", ""))
            return {"kind": "Status", "status": "Success"}
        if "fieldManager" in request.query and address not in store.objects:
            return store.create(address.kind, body)
        return store.change(address, body, part)

    async def _get(self, request: web.Request, address: Address) -> web.StreamResponse:
        selector = request.query.get("labelSelector", "")
        if request.query.get("watch") in ("true", "1"):
            return await self._watch(request, address, selector)
        if address.name:
            return web.json_response(self.store.get(address))
        return web.json_response(
            {
                "kind": f"{address.kind}List",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self.store.version)},
                "items": self.store.of(address.kind, address.namespace, selector),
            }
        )

    async def _watch(
        self, request: web.Request, address: Address, selector: str
    ) -> web.StreamResponse:
        """From now on. What came between a list and this is told as well."""
        since = int(request.query.get("resourceVersion", "0") or 0)
        watch = Watch(address, selector)
        for raw in self.store.of(address.kind, address.namespace, selector):
            if int(raw["metadata"]["resourceVersion"]) > since:
                watch.queue.put_nowait({"type": "MODIFIED", "object": copy.deepcopy(raw)})
        self.store.watches.append(watch)
        answer = web.StreamResponse(headers={"content-type": "application/json"})
        await answer.prepare(request)
        try:
            while (event := await watch.queue.get())["type"] != "END":
                await answer.write(json.dumps(event).encode() + b"\n")
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.store.watches.remove(watch)
        return answer

    @staticmethod
    def _address(path: str) -> tuple[Address, str]:
        for kind, plural in PLURALS.items():
            if not path.startswith(plural.prefix + "/"):
                continue
            rest = path.removeprefix(plural.prefix).strip("/").split("/")
            namespace = ""
            if rest[0] == "namespaces" and len(rest) > 2:
                namespace, rest = rest[1], rest[2:]
            if rest[0] == plural.name:
                name, part = [*rest, "", ""][1:3]
                return Address(kind, namespace, name), part
        raise Refused(404, f"no such path: {path}")

    @staticmethod
    def _discovery(path: str) -> Raw | None:
        """What kopf asks first: which resources there are."""
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            groups = [prefix.split("/")[2:] for prefix in GROUPS if prefix != "/api/v1"]
            return {
                "kind": "APIGroupList",
                "groups": [
                    {
                        "name": group,
                        "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
                        "preferredVersion": {
                            "groupVersion": f"{group}/{version}",
                            "version": version,
                        },
                    }
                    for group, version in groups
                ],
            }
        if path not in GROUPS:
            return None
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        return {
            "kind": "APIResourceList",
            "resources": [
                {
                    "name": PLURALS[kind].name,
                    "singularName": kind.lower(),
                    "kind": kind,
                    "namespaced": PLURALS[kind].namespaced,
                    "verbs": verbs,
                }
                for kind in GROUPS[path]
            ]
            + _backbone(path, verbs),
        }


def _backbone(path: str, verbs: list[str]) -> list[Raw]:
    """What kopf waits for besides."""
    if path != "/api/v1":
        return []
    found = {"name": "namespaces", "singularName": "namespace", "kind": "Namespace"}
    return [{**found, "namespaced": False, "verbs": verbs}]
