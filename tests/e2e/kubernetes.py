"""kubectl on one Kubernetes, and what its nodes are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.controller.real_server import find

ROOT: Final = Path(__file__).parents[2]
FAULT: Final = Path(__file__).parent / "kube/fault"
SECONDS: Final = 180.0
SYSTEM: Final = "holdfast-system"
OPERATORS: Final = ("-n", SYSTEM, "-l", "app.kubernetes.io/name=holdfast-operator")
HOST_LABEL: Final = "kubernetes.io/hostname"


class Kubectl:
    """One cluster."""

    def __init__(self, kubeconfig: str) -> None:
        self.environment = {**os.environ, "KUBECONFIG": kubeconfig}
        self.throwaway = self.json("config", "view")["current-context"] == "throwaway"

    def run(
        self, *arguments: str, stdin: str = "", check: bool = True, seconds: float = SECONDS
    ) -> str:
        """What it prints; what it complains of is in the error."""
        return self._done([find("kubectl"), *arguments], stdin, seconds, check=check)

    def helm(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """The same with helm."""
        return self._done([find("helm"), *arguments], stdin, SECONDS, check=check)

    def _done(self, command: list[str], stdin: str, seconds: float, *, check: bool) -> str:
        done = subprocess.run(
            command,
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
        return done.stdout if done.returncode == 0 else done.stderr + done.stdout

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """What it prints as JSON."""
        return json.loads(self.run(*arguments, "-o", "json", stdin=stdin))

    def stream(self, path: str) -> subprocess.Popen[str]:
        """What a watch tells, a line each."""
        command = [find("kubectl"), "get", "--raw", path]
        out, bad = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(command, env=self.environment, stdout=out, stderr=bad, text=True)

    def operators(self) -> dict[str, dict[str, Any]]:
        """Pods of the operator that are to stay, by name."""
        found = self.json("get", "pods", *OPERATORS)["items"]
        stay = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        return {each["metadata"]["name"]: each for each in stay}

    def leader(self) -> str:
        """The one that acts."""
        lease = self.json("-n", SYSTEM, "get", "lease", "holdfast-operator")
        holder: str = lease["spec"].get("holderIdentity", "")
        return holder


def fault(*words: str) -> str:
    """Of a throwaway node."""
    done = subprocess.run(
        [str(FAULT), *words], check=True, timeout=120, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def kill_container(pod: dict[str, Any]) -> None:
    """Its process ends at once, as when it runs out of memory. On a throwaway node."""
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    fault("kill", pod["spec"]["nodeName"].rpartition("-")[2], container)
