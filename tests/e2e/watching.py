"""Watches: what is so in Kubernetes is in memory, and every status that was ever told is judged.

Rules for each status of a Cluster
----------------------------------
* It observes no generation that has not been declared, and its conditions all observe the same.
* What a condition says is so for the spec of that very generation: `StateApplied` when that state
  holds, `Ready` when so many members serve, `Safe` when no copy is missing. So that
  `kubectl wait --for=condition=...` after a patch never returns early.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from tests.e2e.kubernetes import Kubectl

Raw = dict[str, Any]
Key = tuple[str, str]
CLUSTERS: Final = "/apis/holdfast.io/v1alpha1/clusters"
PODS: Final = "/api/v1/pods"
TRUE_ONLY: Final = ("Ready", "StateApplied", "Safe")


class Stream:
    """Objects of one kind as they are, from a watch that is begun again when it ends."""

    def __init__(self, kubectl: Kubectl, path: str, seen: Callable[[Raw], None]) -> None:
        self.objects: dict[Key, Raw] = {}
        self._kubectl, self._path, self._seen = kubectl, path, seen
        self._ended = threading.Event()
        self._process = kubectl.stream(f"{path}watch=1")
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.is_set():
            assert self._process.stdout is not None
            with self._process.stdout as lines:
                for line in lines:
                    with suppress(json.JSONDecodeError):
                        self._take(json.loads(line))
            self._process.wait()
            if not self._ended.wait(1.0):
                self._process = self._kubectl.stream(f"{self._path}watch=1")

    def _take(self, event: Raw) -> None:
        found = event["object"]
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        key = found["metadata"]["namespace"], found["metadata"]["name"]
        if event["type"] == "DELETED":
            self.objects.pop(key, None)
            return
        self.objects[key] = found
        self._seen(found)

    def close(self) -> None:
        """The end."""
        self._ended.set()
        self._process.kill()
        self._thread.join(10)


class Watcher:
    """Of all Clusters and the pods of their members."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.faults: list[str] = []
        self.told: list[tuple[float, Raw]] = []
        self._specs: dict[tuple[str, int], Raw] = {}
        self._clusters = Stream(kubectl, f"{CLUSTERS}?", self._judge)
        members = "labelSelector=holdfast.io%2Fcluster"
        self._pods = Stream(kubectl, f"{PODS}?{members}&", lambda _: None)

    def cluster(self, namespace: str) -> Raw:
        """`orders` of that namespace; empty before it is known."""
        return self._clusters.objects.get((namespace, "orders"), {})

    def pods(self, namespace: str) -> dict[str, Raw]:
        """Of its members, by name."""
        found = list(self._pods.objects.items())
        return {name: raw for (space, name), raw in found if space == namespace}

    def since(self, namespace: str, moment: float) -> Iterator[tuple[float, Raw]]:
        """What `orders` of that namespace told from then on."""
        for at, raw in list(self.told):
            if at >= moment and raw["metadata"]["namespace"] == namespace:
                yield at, raw

    def close(self) -> None:
        """The end."""
        self._clusters.close()
        self._pods.close()

    def _judge(self, raw: Raw) -> None:
        self.told.append((time.monotonic(), raw))
        meta = raw["metadata"]
        self._specs[meta["uid"], meta["generation"]] = raw["spec"]
        status = raw.get("status", {})
        spec = self._specs.get((meta["uid"], status.get("observedGeneration", 0)))
        for text in early(meta["generation"], spec, status):
            self.faults.append(f"{meta['namespace']} {meta['generation']}: {text}")


def early(generation: int, spec: Raw | None, status: Raw) -> Iterator[str]:
    """What is told and is not so."""
    observed = status.get("observedGeneration", 0)
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    if observed > generation:
        yield f"observes generation {observed}"
    for kind, each in conditions.items():
        if each.get("observedGeneration") != observed:
            yield f"{kind} observes {each.get('observedGeneration')}, the status {observed}"
    if spec is None:
        return  # it was declared and changed between two events
    true = [kind for kind in TRUE_ONLY if conditions.get(kind, {}).get("status") == "True"]
    if "StateApplied" in true and status["state"] != spec["state"]:
        yield f"StateApplied, but the state is {status['state']} and not {spec['state']}"
    if "StateApplied" in true and spec.get("hibernate"):
        yield "StateApplied of a Cluster that is to sleep"
    serve = f"{spec['members']}/{spec['members']}"
    if "Ready" in true and status["members"] != serve:
        yield f"Ready with {status['members']} members of {spec['members']}"
    missing = status.get("partitions", {}).get("missingCopies", 0)
    if "Safe" in true and (missing or not status["safe"]):
        yield f"Safe with {missing} copies missing"
    if "StateApplied" in true and status.get("pendingState"):
        yield f"StateApplied, but {status['pendingState']} is pending"
