"""Containers that end: those of Jobs, and those that run before a pod's member does.

They are real processes of the command line. What a node would mount is a folder here, and where a
Service is named the address of a ready pod is put in.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast_operator.builders.jobs import REPORT
from holdfast_operator.names import (
    CLUSTER_LABEL,
    DATA_DIR,
    JOB_LABEL,
    SOURCE_DIR,
    SOURCE_SECRET_DIR,
)
from tests.controller.api_server import Address, now
from tests.shell.processes import MAIN

if TYPE_CHECKING:
    from tests.controller.kubelet import Kubelet

Raw = dict[str, Any]
SERVICE: Final = re.compile(r"http://([a-z0-9-]+)-http\.([a-z0-9-]+)\.svc")
HOST: Final = re.compile(r"=([a-z0-9-]+)\.[^:]*:")


@dataclass(slots=True)
class Work:
    """A container that runs."""

    popen: subprocess.Popen[bytes]
    log: Path
    report: Path

    def said(self) -> str:
        """As a kubelet tells it: what was left for it, else the end of the log."""
        told = self.report.read_text() if self.report.exists() else ""
        return told or self.log.read_text()[-2_000:]


class Workers:
    """Of one kubelet."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._jobs: dict[str, Work] = {}
        self._seeders: dict[str, Work] = {}
        self._seeded: set[str] = set()
        self._numbers = 0

    @property
    def claims(self) -> Path:
        """Claims that no set made, by their names."""
        return self._kubelet.folder / "claims"

    def close(self) -> None:
        """No process stays."""
        for each in (*self._jobs.values(), *self._seeders.values()):
            each.popen.kill()
            each.popen.wait()

    # Jobs -----------------------------------------------------------------------------------------

    def jobs(self) -> None:
        """Run each once; what becomes of it."""
        store = self._kubelet.store
        for raw in store.of("Job"):
            meta = raw["metadata"]
            if raw.get("status"):
                continue
            address = Address("Job", meta["namespace"], meta["name"])
            template = raw["spec"]["template"]
            work = self._jobs.get(meta["uid"])
            if work is None:
                self._jobs[meta["uid"]] = self._start(
                    meta["name"],
                    meta["namespace"],
                    template["spec"],
                    template["spec"]["containers"],
                )
                continue
            code = work.popen.poll()
            if code is None:
                continue
            del self._jobs[meta["uid"]]
            self._tell_of_pod(raw, code, work.said())
            kind = "Failed" if code else "Complete"
            condition = {"type": kind, "status": "True", "message": "BackoffLimitExceeded"}
            store.change(address, {"status": {"conditions": [condition]}})

    def _tell_of_pod(self, job: Raw, code: int, said: str) -> None:
        meta = job["metadata"]
        end = {"exitCode": code, "message": said, "finishedAt": now()}
        owner = {"kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        body = {
            "metadata": {
                "name": f"{meta['name']}-x",
                "namespace": meta["namespace"],
                "labels": job["spec"]["template"]["metadata"]["labels"],
                "ownerReferences": [owner],
            },
            "status": {"containerStatuses": [{"name": "carry", "state": {"terminated": end}}]},
        }
        assert JOB_LABEL in body["metadata"]["labels"]
        self._kubelet.store.create("Pod", body)

    # Before a member ------------------------------------------------------------------------------

    def has_seeded(self, raw: Raw) -> bool:
        """Whether everything that comes before the member is done; it is done again until it is."""
        meta, seeders = raw["metadata"], raw["spec"].get("initContainers")
        if not seeders or meta["uid"] in self._seeded:
            return True
        work = self._seeders.get(meta["uid"])
        if work is None:
            self._seeders[meta["uid"]] = self._start(
                meta["name"], meta["namespace"], raw["spec"], seeders
            )
            return False
        code = work.popen.poll()
        if code is None:
            return False
        del self._seeders[meta["uid"]]
        if code == 0:
            self._seeded.add(meta["uid"])
            return True
        state = {
            "name": "seed",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": code, "message": work.said()}},
        }
        address = Address("Pod", meta["namespace"], meta["name"])
        self._kubelet.store.change(address, {"status": {"initContainerStatuses": [state]}})
        return False

    # Processes ------------------------------------------------------------------------------------

    def _start(self, name: str, namespace: str, pod: Raw, containers: list[Raw]) -> Work:
        (container,) = containers
        self._numbers += 1
        place = self._kubelet.folder / f"work-{name}-{self._numbers}"
        place.mkdir(parents=True)
        report, log = place / "report", place / "log"
        values = self._environment(name, namespace, container)
        places = {
            f"{DATA_DIR}/member": str(self._kubelet.volume(name)),
            SOURCE_SECRET_DIR: str(place),
            REPORT: str(report),
            **self._volumes(namespace, pod, place),
        }
        arguments = [self._argument(each, places, values) for each in container["args"]]
        paths = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
        with log.open("wb") as file:
            popen = subprocess.Popen(
                [sys.executable, "-c", MAIN, *arguments],
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env={**paths, **values},
            )
        return Work(popen, log, report)

    def _argument(self, text: str, places: dict[str, str], values: dict[str, str]) -> str:
        for known, real in places.items():
            text = text.replace(known, real)
        for key, value in values.items():
            text = text.replace(f"$({key})", value)
        return SERVICE.sub(lambda found: f"http://{self._ready(found[1], found[2])}", text)

    def _ready(self, cluster: str, namespace: str) -> str:
        """The address of a pod that serves; nobody's where none does."""
        for raw in self._kubelet.store.of("Pod", namespace, f"{CLUSTER_LABEL}={cluster}"):
            conditions = raw.get("status", {}).get("conditions", ())
            if {"type": "Ready", "status": "True"} in conditions:
                address: str = raw["status"]["podIP"]
                return address
        return "127.0.0.1:1"

    def _volumes(self, namespace: str, pod: Raw, place: Path) -> dict[str, str]:
        """What is mounted where backups are; secrets are written."""
        found = {}
        for each in pod["volumes"]:
            if each["name"] == "source":
                claim = self.claims / each["persistentVolumeClaim"]["claimName"]
                claim.mkdir(parents=True, exist_ok=True)
                found[SOURCE_DIR] = str(claim)
            if each["name"] == "source-secret":
                address = Address("Secret", namespace, each["secret"]["secretName"])
                secret = self._kubelet.store.get(address)
                (place / "secret").write_bytes(base64.b64decode(secret["data"]["secret"]))
        return found

    def _environment(self, name: str, namespace: str, container: Raw) -> dict[str, str]:
        values = {}
        store = self._kubelet.store
        for each in container["env"]:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                values[each["name"]] = name
            elif "configMapKeyRef" in source:
                chosen = source["configMapKeyRef"]
                found = store.get(Address("ConfigMap", namespace, chosen["name"]))
                text = found["data"][chosen["key"]]
                values[each["name"]] = HOST.sub(
                    lambda found: f"={self._kubelet.address(found[1])}:", text
                )
            elif "secretKeyRef" in source:
                chosen = source["secretKeyRef"]
                data = store.get(Address("Secret", namespace, chosen["name"]))["data"]
                if chosen["key"] in data:
                    values[each["name"]] = base64.b64decode(data[chosen["key"]]).decode()
            else:
                values[each["name"]] = each["value"]
        return values
