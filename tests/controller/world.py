"""An operator, an API server, and pods that are real members: what tests of the shell are in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from holdfast_operator.kubernetes.access import Access
from holdfast_operator.options import Options, parse
from holdfast_operator.running.operator import Operator
from tests.controller.api_server import Address, ApiServer, Raw
from tests.controller.kubelet import Kubelet, pause

NAMESPACE: Final = "shop"
DEADLINE_SECONDS: Final = 240.0


class World:
    """What a test sees and does."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.store = server.store
        self.kubelet = Kubelet(server.store, folder)
        self.operators: dict[str, tuple[Operator, asyncio.Task[None]]] = {}

    def start(self, identity: str = "first", *flags: str) -> Operator:
        """One more operator."""
        operator = Operator(self.options(identity, *flags), Access(self.server.url))
        task = asyncio.get_running_loop().create_task(operator.run())
        self.operators[identity] = operator, task
        return operator

    @staticmethod
    def options(identity: str, *flags: str) -> Options:
        """Ports of its own, all namespaces."""
        given = ["--identity", identity, "--port", "0", "--bind", "127.0.0.1", *flags]
        return parse(given, {})

    async def stop(self, identity: str = "first") -> None:
        """In good order."""
        operator, task = self.operators.pop(identity)
        operator.stopping.set()
        await task

    def kill(self, identity: str = "first") -> None:
        """At any line: nothing is given back."""
        operator, task = self.operators.pop(identity)
        operator.leadership.changed = lambda: None
        operator.leadership._renewed_at = None
        task.cancel()

    def declare(self, name: str = "orders", **spec: Any) -> Raw:
        """A Cluster, as `kubectl apply` would make it."""
        small = {"partitions": 32, "persistence": {"size": "1Gi"}}
        meta = {"name": name, "namespace": NAMESPACE}
        body = {"apiVersion": "holdfast.io/v1alpha1", "kind": "Cluster", "metadata": meta}
        return self.store.create("Cluster", {**body, "spec": {**small, **spec}})

    def patch(self, name: str = "orders", **spec: Any) -> Raw:
        """As `kubectl patch`."""
        return self.store.change(Address("Cluster", NAMESPACE, name), {"spec": spec})

    def cluster(self, name: str = "orders") -> Raw:
        """As it is."""
        return self.store.get(Address("Cluster", NAMESPACE, name))

    def status(self, name: str = "orders") -> Raw:
        """Its status."""
        status: Raw = self.cluster(name).get("status", {})
        return status

    def condition(self, kind: str, name: str = "orders") -> Raw:
        """One condition; empty before it is known."""
        found: list[Raw] = self.status(name).get("conditions", [])
        return next((each for each in found if each["type"] == kind), {})

    def holds(self, kind: str, name: str = "orders") -> bool:
        """As `kubectl wait --for=condition` judges it."""
        cluster = self.cluster(name)
        condition = self.condition(kind, name)
        current = condition.get("observedGeneration") == cluster["metadata"]["generation"]
        return current and condition.get("status") == "True"

    def pods(self) -> dict[str, Raw]:
        """By name."""
        return {raw["metadata"]["name"]: raw for raw in self.store.of("Pod")}

    def events(self) -> list[str]:
        """Reasons, in the order in which they were told."""
        found = sorted(self.store.of("Event"), key=lambda e: int(e["metadata"]["resourceVersion"]))
        return [each["reason"] for each in found]

    def is_at_rest(self, name: str = "orders") -> bool:
        """Everything is as declared, and safe."""
        calm = self.condition("Progressing", name).get("status") == "False"
        return calm and all(self.holds(kind, name) for kind in ("Ready", "StateApplied", "Safe"))

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for it; say what was seen if it does not come."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_SECONDS
        while not condition():
            for _, task in self.operators.values():
                if task.done():
                    task.result()
            assert loop.time() < deadline, f"not in time: {what}\n{self.story()}"
            await pause(0.02)

    def story(self) -> str:
        """What is so, for people."""
        lines = []
        for raw in self.store.of("Cluster"):
            status = raw.get("status", {})
            lines.append(f"{raw['metadata']['name']}: {raw['spec']}")
            lines += [f"  {key}: {value}" for key, value in status.items() if key != "conditions"]
            lines += [
                f"  {c['type']}={c['status']} {c['reason']}: {c['message']}"
                for c in status.get("conditions", [])
            ]
        for name, running in self.kubelet.running.items():
            tail = running.log.read_text(encoding="utf-8").splitlines()[-4:]
            lines += [f"pod {name}:", *(f"    {line[:300]}" for line in tail)]
        lines += [f"event {each}" for each in self.events()]
        return "\n".join(lines)


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """All of it; nothing stays."""
    async with ApiServer().serving() as server:
        made = World(server, folder)
        kubelet = asyncio.get_running_loop().create_task(made.kubelet.run())
        try:
            yield made
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)
            made.kubelet.close()
            for identity in list(made.operators):
                await made.stop(identity)
