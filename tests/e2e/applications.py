"""A pod with applications (`load.py`) beside a grid, and questions to it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from tests.e2e.kubernetes import HOST_LABEL, SECONDS, Kubectl
from tests.shell.waiting import wait_until

SOURCE: Final = (Path(__file__).parent / "load.py").read_text(encoding="utf-8")
IMAGE: Final = os.environ.get("IMAGE_NODE", "localhost/holdfast:dev")
ASK: Final = """
import sys
from urllib.error import HTTPError
from urllib.request import urlopen
try:
    print(urlopen("http://127.0.0.1:9000/" + sys.argv[1], timeout=170).read().decode())
except HTTPError as error:
    sys.exit(f"{error}: {error.read().decode()}")
"""


def hosts() -> list[str]:
    """The Service; where that leads to somebody who is gone, the members themselves."""
    return ["orders", *(f"orders-{i}.orders-members" for i in range(3))]


class Applications:
    """They write from the moment that the pod runs."""

    def __init__(
        self, kubectl: Kubectl, namespace: str, name: str = "load", *, node: str = "", at: str = ""
    ) -> None:
        """On a node, if one is named; `at` is the only host that they know."""
        self._kubectl, self._namespace, self.name = kubectl, namespace, name
        body = pod(name, node, [at] if at else hosts())
        kubectl.run("-n", namespace, "apply", "-f", "-", stdin=json.dumps(body))

    def ask(self, what: str) -> Any:
        """One of the questions of `load.Desk`."""
        return json.loads(self.inside(ASK, what))

    def inside(self, script: str, *arguments: str, check: bool = True) -> str:
        """What a script prints that runs beside the applications."""
        command = ("exec", self.name, "--", "python3", "-c", script, *arguments)
        return self._kubectl.run("-n", self._namespace, *command, check=check)

    def until_writing(self, seconds: float = SECONDS) -> None:
        """Nobody waits."""
        flags = ("--for=condition=Ready", f"pod/{self.name}", f"--timeout={SECONDS:.0f}s")
        self._kubectl.run("-n", self._namespace, "wait", *flags)
        begun = self.ask("told")["acknowledged"]

        def flows() -> bool:
            told = self.ask("told")
            return bool(not told["waiting"] and told["acknowledged"] > begun)

        wait_until(flows, f"all of {self.name} write", seconds)

    def check(self) -> int:
        """Every acknowledged write is there; how many there are."""
        told = self.ask("check")
        lost = told["lost"]
        assert not lost, f"{len(lost)} of {told['checked']} are lost: {lost[:10]}"
        checked: int = told["checked"]
        return checked


def pod(name: str, node: str, known: list[str]) -> dict[str, Any]:
    """Its manifest."""
    security = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    asked = {"exec": {"command": ["python3", "-c", ASK, "told"]}, "timeoutSeconds": 10}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10_001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "load",
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-u", "-c", SOURCE, name, *known],
                "securityContext": security,
                "startupProbe": {**asked, "periodSeconds": 1, "failureThreshold": 60},
            }
        ],
    }
    if node:
        spec["nodeSelector"] = {HOST_LABEL: node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
