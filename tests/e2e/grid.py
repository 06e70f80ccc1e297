"""A Cluster called `orders` in a namespace of its own, and applications that write all the time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from tests.e2e.applications import Applications
from tests.e2e.kubernetes import SECONDS, Kubectl
from tests.e2e.watching import Raw, Watcher
from tests.shell.waiting import wait_until

NAME: Final = "hfc/orders"
BASE: Final[dict[str, Any]] = {
    "members": 3,
    "lite": {"members": 1, "promote": 0},
    "state": "ACTIVE",
    "hibernate": False,
}
"""What every story begins with and can change."""
FIXED: Final[dict[str, Any]] = {"partitions": 64, "persistence": {"size": "1Gi"}}
AT_REST: Final = {"Ready": "True", "StateApplied": "True", "Safe": "True", "Progressing": "False"}
UNREVIEWED: Final = "failed calling webhook"
STEP_SECONDS: Final = 0.1
"""Between two looks: some start a process, and the members need the processors."""
MEMBER: Final = """
import json, sys
from urllib.request import urlopen
print(urlopen("http://" + sys.argv[1] + ":8080" + sys.argv[2], timeout=10).read().decode())
"""


class Grid:
    """What users see and do."""

    def __init__(self, kubectl: Kubectl, watcher: Watcher, title: str) -> None:
        self.kubectl, self.watcher = kubectl, watcher
        self.namespace = f"{title[:40].strip('-')}-{uuid4().hex[:4]}"
        self.generation = 0
        self.changed_at = 0.0
        kubectl.run("create", "namespace", self.namespace)
        node = "node-1" if kubectl.throwaway else ""  # the one that is never broken
        self.load = Applications(kubectl, self.namespace, node=node)

    # --- what users do ---

    def run(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """kubectl in the namespace."""
        return self.kubectl.run("-n", self.namespace, *arguments, stdin=stdin, check=check)

    def declare(self, **spec: Any) -> None:
        """Apply the Cluster."""
        body = {
            "apiVersion": "holdfast.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": "orders"},
            "spec": {**FIXED, **BASE, **spec},
        }
        self._is_changed(self.run("apply", "-o", "json", "-f", "-", stdin=json.dumps(body)))

    def patch(self, **spec: Any) -> None:
        """Change what is declared. While no operator answers nothing can be reviewed, and is
        refused: then it is asked again, as anybody would."""
        body = json.dumps({"spec": spec})
        command = ("patch", NAME, "--type=merge", "-o", "json", "-p", body)
        told = UNREVIEWED

        def taken() -> bool:
            nonlocal told
            told = self.run(*command, check=False)
            return UNREVIEWED not in told

        wait_until(taken, "somebody reviews it", SECONDS, step=STEP_SECONDS)
        assert told.startswith("{"), told
        self._is_changed(told)

    def scale(self, members: int) -> None:
        """By the scale subresource."""
        self.changed_at = time.monotonic()
        self.run("scale", NAME, f"--replicas={members}")
        self._is_changed(self.run("get", NAME, "-o", "json"))

    def _is_changed(self, told: str) -> None:
        self.changed_at = time.monotonic()
        self.generation = json.loads(told)["metadata"]["generation"]

    def refused(self, **spec: Any) -> str:
        """What is said to a change that is not taken."""
        body = json.dumps({"spec": spec})
        told = self.run("patch", NAME, "--type=merge", "-p", body, check=False)
        assert "patched" not in told, f"it was taken: {spec}"
        return told

    # --- what they see ---

    @property
    def status(self) -> Raw:
        """Of the Cluster."""
        status: Raw = self.watcher.cluster(self.namespace).get("status", {})
        return status

    def condition(self, kind: str) -> Raw:
        """One that tells of what is declared now; empty otherwise."""
        found = (each for each in self.status.get("conditions", []) if each["type"] == kind)
        one: Raw = next(found, {})
        return one if one.get("observedGeneration", 0) >= self.generation else {}

    def holds(self, kind: str) -> bool:
        """Whether it is true."""
        return self.condition(kind).get("status") == "True"

    def is_at_rest(self) -> bool:
        """As declared, and safe."""
        return all(self.condition(kind).get("status") == text for kind, text in AT_REST.items())

    def pods(self) -> dict[str, Raw]:
        """By name."""
        return self.watcher.pods(self.namespace)

    def uids(self) -> dict[str, str]:
        """Of the pods."""
        return {name: raw["metadata"]["uid"] for name, raw in self.pods().items()}

    def member(self, pod: str) -> Raw:
        """As the status lists it; empty if it does not."""
        return next((m for m in self.status.get("memberList", []) if m["pod"] == pod), {})

    def claims(self) -> list[Raw]:
        """Of the Cluster; others of the namespace may have left some."""
        flags = ("-n", self.namespace, "get", "pvc", "-l", "holdfast.io/cluster=orders")
        found: list[Raw] = self.kubectl.json(*flags)["items"]
        return found

    def events(self) -> str:
        """All that was said."""
        return self.run("get", "events", "--field-selector=involvedObject.kind=Cluster")

    # --- waiting ---

    def until(self, condition: Callable[[], object], what: str, seconds: float = SECONDS) -> float:
        """Wait for it; how long that took since the last change."""
        try:
            wait_until(condition, what, seconds, step=STEP_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.brief()}") from None
        return time.monotonic() - self.changed_at

    def at_rest(self) -> float:
        """As declared, and safe; how long that took since the last change."""
        return self.until(self.is_at_rest, "at rest")

    def back_again(self, pod: str, before: Raw) -> float:
        """A member that went is there in another stay, and all is well: what was told before it was
        missed counts for nothing."""
        self.until(lambda: self.member(pod).get("incarnation", 0) > before["incarnation"], "back")
        return self.at_rest()

    def renewed(self, before: dict[str, str], *pods: str) -> bool:
        """Whether these pods are others than before."""
        now = self.uids()
        return all(now.get(pod, before[pod]) != before[pod] for pod in pods or before)

    def kubectl_wait(self, condition: str) -> None:
        """As users do."""
        self.run("wait", f"--for=condition={condition}", NAME, f"--timeout={SECONDS:.0f}s")

    # --- the members themselves ---

    def ask(self, pod: str, path: str) -> str:
        """What one says over HTTP."""
        return self.load.inside(MEMBER, self.pods()[pod]["status"]["podIP"], path)

    def state(self) -> str:
        """By the word of a member."""
        told: str = json.loads(self.ask("orders-0", "/v1/cluster"))["state"]
        return told

    def counted(self, name: str) -> float:
        """A metric, over all members."""
        return sum(
            float(line.split()[-1])
            for pod in self.pods()
            for line in self.ask(pod, "/metrics").splitlines()
            if line.startswith(f"holdfast_{name}")
        )

    # --- the story ---

    def begin(self) -> None:
        """As every story begins."""
        if self.generation:
            self.patch(**BASE)
        else:
            self.declare()
        self.at_rest()
        self.load.until_writing()
        self.load.ask("mark")

    def brief(self) -> str:
        """What is so, in a line."""
        status = self.status
        told = [f"{c['type']}={c['status']} {c['reason']}" for c in status.get("conditions", [])]
        return f"{status.get('phase')} {status.get('members')} {'; '.join(told)}"

    def story(self) -> str:
        """What is so, for people."""
        parts = [
            self.run("get", "hfc,sts,pods,pvc,pdb", "-o", "wide", check=False),
            self.run("describe", NAME, check=False),
            self.run("logs", "-l", "holdfast.io/cluster=orders", "--tail=20", check=False),
            self.kubectl.run("-n", "holdfast-system", "logs", "-l",
                "app.kubernetes.io/name=holdfast-operator", "--tail=20", check=False),
        ]  # fmt: skip
        return "\n".join(parts)

    def end(self) -> None:
        """The namespace goes, with all claims."""
        self.run("delete", "hfc", "--all", "--wait=false")
        self.kubectl.run("delete", "namespace", self.namespace, "--wait=false")
