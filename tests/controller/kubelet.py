"""What StatefulSets and kubelets do, as far as the operator can tell: pods are real members.

Each pod has an address of its own on loopback, so that its members have the ports of the template.
Names of the headless Service don't resolve here: where a template names a pod's host, its address
is put in. Everything else is taken from the template: image apart, it runs what it says.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import ipaddress
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast_operator.names import JOB_LABEL
from tests.controller.api_server import Address, Store, now
from tests.controller.workers import Workers
from tests.shell.processes import MAIN

Raw = dict[str, Any]
VARIABLE: Final = re.compile(r"\$\((\w+)\)")
QUICK: Final = {
    "HOLDFAST_HEARTBEAT_MS": "200",
    "HOLDFAST_LEASE_MS": "1500",
    "HOLDFAST_LEASE_MARGIN_MS": "100",
    "HOLDFAST_RETRY_MS": "200",
    "HOLDFAST_CLAIM_STEP_MS": "100",
    "HOLDFAST_FORMING_PATIENCE_MS": "500",
}


@dataclass(slots=True)
class Running:
    """The container of a pod."""

    popen: subprocess.Popen[bytes]
    container: str
    uid: str
    log: Path
    started_at: str
    restarts: int = 0
    ready: bool = False


class Kubelet:
    """Makes pods of sets, runs them, and says how they are; Jobs as well (`workers.Workers`)."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.running: dict[str, Running] = {}
        self.broken: set[str] = set()
        """Pods that are not started any more: their node is gone."""
        # of this process alone: others may run the same tests, and every pod has the same ports
        self._base = ipaddress.ip_address("127.1.0.0") + (os.getpid() % 250 << 8)
        self._addresses: dict[str, str] = {}
        self._numbers = 0
        self.workers = Workers(self)

    def address(self, pod: str) -> str:
        """For ever the same, as a name would be."""
        number = len(self._addresses) + 1
        return self._addresses.setdefault(pod, str(self._base + number))

    def volume(self, pod: str) -> Path:
        """What its claim is."""
        return self.folder / "volumes" / pod

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._sets()
            for raw in self.store.of("Pod"):
                if JOB_LABEL not in raw["metadata"]["labels"]:
                    self._pod(raw)
            self.workers.jobs()
            self._claims()
            await pause(0.05)

    def close(self) -> None:
        """No process stays."""
        self.workers.close()
        for name, each in self.running.items():
            self.kill(name)
            each.popen.wait()

    def kill(self, pod: str) -> None:
        """SIGKILL to every process of the container, as when its first one dies."""
        for pid in family(self.running[pod].popen.pid):
            os.kill(pid, signal.SIGKILL)

    # Sets and claims ------------------------------------------------------------------------------

    def _sets(self) -> None:
        for raw in self.store.of("StatefulSet"):
            meta = raw["metadata"]
            wanted = [f"{meta['name']}-{i}" for i in range(raw["spec"]["replicas"])]
            for name in wanted:
                self._make(raw, name)
            selector = raw["spec"]["selector"]["matchLabels"]
            labels = ",".join(f"{key}={value}" for key, value in selector.items())
            for pod in self.store.of("Pod", meta["namespace"], labels):
                if pod["metadata"]["name"] not in wanted:
                    self.store.delete(Address("Pod", meta["namespace"], pod["metadata"]["name"]))

    def _make(self, raw: Raw, name: str) -> None:
        meta = raw["metadata"]
        if Address("Pod", meta["namespace"], name) in self.store.objects:
            return
        template = copy.deepcopy(raw["spec"]["template"])
        for claim in raw["spec"].get("volumeClaimTemplates", ()):
            self._claim(claim, meta["namespace"], name)
        owner = {"kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"]}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template["metadata"],
                "name": name,
                "namespace": meta["namespace"],
                "ownerReferences": [owner],
            },
            "spec": {**template["spec"], "nodeName": f"node-{name}"},
        }
        self.store.create("Pod", body)

    def _claim(self, template: Raw, namespace: str, pod: str) -> None:
        name = f"{template['metadata']['name']}-{pod}"
        if Address("PersistentVolumeClaim", namespace, name) in self.store.objects:
            return
        meta = {**template["metadata"], "name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta}
        self.store.create("PersistentVolumeClaim", {**body, "spec": template["spec"]})

    def _claims(self) -> None:
        """What is asked for is given; what has no claim any more is emptied."""
        names = {raw["metadata"]["name"] for raw in self.store.of("PersistentVolumeClaim")}
        for volume in (self.folder / "volumes").glob("[!.]*"):
            if f"data-{volume.name}" not in names and volume.name not in self.running:
                shutil.rmtree(volume)
        for raw in self.store.of("PersistentVolumeClaim"):
            asked = raw["spec"]["resources"]["requests"]["storage"]
            if raw.get("status", {}).get("capacity", {}).get("storage") != asked:
                meta = raw["metadata"]
                address = Address("PersistentVolumeClaim", meta["namespace"], meta["name"])
                self.store.change(address, {"status": {"capacity": {"storage": asked}}})

    # Pods -----------------------------------------------------------------------------------------

    def _pod(self, raw: Raw) -> None:
        meta = raw["metadata"]
        name = meta["name"]
        running = self.running.get(name)
        if running is None and name in self.broken:
            return
        if running is None:
            if "deletionTimestamp" in meta:
                self.store.remove(Address("Pod", meta["namespace"], name))
            elif self.workers.has_seeded(raw):
                self.running[name] = self._start(raw, 0)
                self._say(raw, self._state(self.running[name]))
            return
        code = running.popen.poll()
        if code is None:
            if "deletionTimestamp" in meta and not running.log.with_suffix(".term").exists():
                running.log.with_suffix(".term").touch()
                running.popen.send_signal(signal.SIGTERM)
            self._look(raw, running)
            return
        del self.running[name]
        if "deletionTimestamp" in meta or meta["uid"] != running.uid:
            self.store.remove(Address("Pod", meta["namespace"], name))
            return
        again = self._start(raw, running.restarts + 1)
        self.running[name] = again
        self._say(raw, {**self._state(again), "lastState": {"terminated": ended(running, code)}})

    def _look(self, raw: Raw, running: Running) -> None:
        ready = '"ready":true' in running.log.read_text(encoding="utf-8").replace(" ", "")
        if ready != running.ready:
            running.ready = ready
            before = raw["status"]["containerStatuses"][0]
            kept = {"lastState": before["lastState"]} if "lastState" in before else {}
            self._say(raw, {**self._state(running), **kept})

    def _state(self, running: Running) -> Raw:
        return {
            "name": "member",
            "containerID": running.container,
            "restartCount": running.restarts,
            "ready": running.ready,
            "state": {"running": {"startedAt": running.started_at}},
        }

    def _say(self, raw: Raw, container: Raw) -> None:
        meta = raw["metadata"]
        ready = "True" if container["ready"] else "False"
        status = {
            "phase": "Running",
            "podIP": self.address(meta["name"]),
            "containerStatuses": [container],
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": ready},
            ],
        }
        self.store.change(Address("Pod", meta["namespace"], meta["name"]), {"status": status})

    def _start(self, raw: Raw, restarts: int) -> Running:
        """Run the container of a pod."""
        self._numbers += 1
        name, namespace = raw["metadata"]["name"], raw["metadata"]["namespace"]
        container = raw["spec"]["containers"][0]
        place = self.folder / f"{name}-{self._numbers}"
        place.mkdir(parents=True)
        environment = self._environment(raw, container, place)
        settings = self.store.get(self._map(raw, "config", namespace))["data"]["holdfast.toml"]
        (place / "holdfast.toml").write_text(settings)
        log = place / "log"
        command = [sys.executable, "-c", MAIN, "member", "--config", str(place / "holdfast.toml")]
        with log.open("wb") as file:
            popen = subprocess.Popen(
                command,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        uid = raw["metadata"]["uid"]
        return Running(popen, f"fake://{self._numbers}", uid, log, now(), restarts)

    @staticmethod
    def _map(raw: Raw, volume: str, namespace: str) -> Address:
        found = next(each for each in raw["spec"]["volumes"] if each["name"] == volume)
        return Address("ConfigMap", namespace, found["configMap"]["name"])

    def _environment(self, raw: Raw, container: Raw, place: Path) -> dict[str, str]:
        name, namespace = raw["metadata"]["name"], raw["metadata"]["namespace"]
        fields = {
            "metadata.name": name,
            "metadata.namespace": namespace,
            "spec.nodeName": raw["spec"]["nodeName"],
        }
        values: dict[str, str] = {}
        for each in container["env"]:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                values[each["name"]] = fields[source["fieldRef"]["fieldPath"]]
            elif "configMapKeyRef" in source:
                chosen = source["configMapKeyRef"]
                found = self.store.get(Address("ConfigMap", namespace, chosen["name"]))
                values[each["name"]] = found["data"][chosen["key"]]
            else:
                text = VARIABLE.sub(lambda found: values[found[1]], each["value"])
                values[each["name"]] = text
        values["HOLDFAST_ADVERTISE"] = values["HOLDFAST_BIND"] = self.address(name)
        hosts = values["HOLDFAST_INITIAL"].split(",")
        values["HOLDFAST_INITIAL"] = ",".join(
            f"{self.address(host.split('.')[0])}:{host.rpartition(':')[2]}" for host in hosts
        )
        values["HOLDFAST_SECRET_FILE"] = str(self._secret(raw, place))
        if "HOLDFAST_DATA_DIR" in values:
            values["HOLDFAST_DATA_DIR"] = str(self.volume(name))
            self.volume(name).mkdir(parents=True, exist_ok=True)
        paths = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        return {**paths, **QUICK, **values}

    def _secret(self, raw: Raw, place: Path) -> Path:
        found = next(each for each in raw["spec"]["volumes"] if each["name"] == "secret")
        namespace = raw["metadata"]["namespace"]
        secret = self.store.get(Address("Secret", namespace, found["secret"]["secretName"]))
        file = place / "secret"
        file.write_bytes(base64.b64decode(secret["data"]["secret"]))
        return file


def family(pid: int) -> list[int]:
    """A process and all that it started, itself first."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    below = listed.read_text().split() if listed.exists() else []
    return [pid, *(other for child in below for other in family(int(child)))]


async def pause(seconds: float) -> None:
    """Between two looks at a condition."""
    loop = asyncio.get_running_loop()
    turn: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not turn.done():
            turn.set_result(None)

    loop.call_later(seconds, end)
    await turn


def ended(running: Running, code: int) -> Raw:
    """What a kubelet says of a container that ended."""
    return {
        "containerID": running.container,
        "startedAt": running.started_at,
        "finishedAt": now(),
        "exitCode": code if code >= 0 else 128 - code,
        "reason": "Error" if code else "Completed",
    }
