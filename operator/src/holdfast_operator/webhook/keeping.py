"""Keeping the webhook: its certificate in its Secret and in the server, and what the API server
knows of it.

The API server refuses what it can't have reviewed. So it is told of the webhook only when somebody
answers behind its Service: until then what is applied right after `helm install` is taken, and what
the webhook would have refused is told by the plan (`SpecRefused`). From then on the webhook stays,
whoever answers or not.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from holdfast_operator.kubernetes.client import OWN, PLURALS, Kubernetes
from holdfast_operator.kubernetes.errors import Conflict, KubernetesError, Missing
from holdfast_operator.names import GROUP, VERSION
from holdfast_operator.observed import Raw
from holdfast_operator.webhook.certificates import Pair, make, needs_renewal, of_data

LOG: Final = logging.getLogger("holdfast.operator.webhook")
LOOK_EVERY_SECONDS: Final = 600.0
AGAIN_SECONDS: Final = 5.0
SOON_SECONDS: Final = 1.0
"""Until somebody answers; and so long every node has to learn who does."""
RULES: Final[list[Raw]] = [
    {
        "apiGroups": [GROUP],
        "apiVersions": [VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": [plural.name for plural in PLURALS.values() if plural.prefix == OWN],
        "scope": "Namespaced",
    }
]
"""What is reviewed."""


class Keeper:
    """One Secret, one server, one configuration."""

    def __init__(
        self, api: Kubernetes, namespace: str, service: str, *, secret: str, configuration: str
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._service = service
        self._secret = secret
        self._configuration = configuration
        host = f"{service}.{namespace}.svc"
        self._names = [host, f"{host}.cluster.local"]
        self._answered = False
        """Somebody did, when it was last looked."""
        self._loaded: Pair | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    @property
    def has_certificate(self) -> bool:
        """Whether the server can be asked."""
        return self._loaded is not None

    async def run(self) -> None:
        """Keep it, until cancelled."""
        while True:
            try:
                seconds = LOOK_EVERY_SECONDS if await self.keep() else SOON_SECONDS
            except KubernetesError as error:
                LOG.warning("the webhook's certificate could not be looked after: %s", error)
                seconds = AGAIN_SECONDS
            await asyncio.sleep(seconds)

    async def keep(self) -> bool:
        """Once: whatever is missing or old is made, loaded, told; whether that is all."""
        pair = await self._current(datetime.now(UTC))
        if pair != self._loaded:
            _load(self.context, pair)
            self._loaded = pair
            LOG.info("the webhook has a certificate for %s", ", ".join(self._names))
        return await self._tell(pair)

    async def _current(self, now: datetime) -> Pair:
        try:
            raw = await self._api.get("Secret", self._namespace, self._secret)
        except Missing:
            raw = None
        pair = None if raw is None else of_data(raw.get("data") or {})
        if pair is not None and not needs_renewal(pair, self._names, now):
            return pair
        made = make(self._names, now, pair)
        body: Raw = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self._secret, "namespace": self._namespace},
            "type": "kubernetes.io/tls",
            "data": made.data(),
        }
        try:
            if raw is None:
                await self._api.create("Secret", body)
            else:
                body["metadata"] = {**raw["metadata"]}
                body["type"] = raw.get("type", body["type"])
                body["metadata"].pop("managedFields", None)
                await self._api.replace("Secret", body)
        except Conflict:
            return await self._current(now)  # another replica was quicker
        return made

    async def _tell(self, pair: Pair) -> bool:
        kind = "ValidatingWebhookConfiguration"
        raw = await self._api.get(kind, "", self._configuration)
        bundle = base64.b64encode(pair.bundle).decode()
        hooks = raw.get("webhooks") or []
        if not hooks and not await self._answers():
            return False
        known = [(each["clientConfig"].get("caBundle"), each.get("rules")) for each in hooks]
        if known == [(bundle, RULES)]:
            return True
        raw["webhooks"] = [self._hook(bundle)]
        raw["metadata"].pop("managedFields", None)
        try:
            await self._api.replace(kind, raw)
        except Conflict:
            LOG.info("the webhook's configuration has just been changed; it is looked at again")
            raise
        return True

    async def _answers(self) -> bool:
        """Whether somebody is ready behind the Service, and was a moment ago."""
        selector = f"kubernetes.io/service-name={self._service}"
        slices = await self._api.list("EndpointSlice", self._namespace, selector)
        ends = [end for each in slices for end in each.get("endpoints") or ()]
        before = self._answered
        self._answered = any(end.get("conditions", {}).get("ready") for end in ends)
        return before and self._answered

    def _hook(self, bundle: str) -> Raw:
        service = {"name": self._service, "namespace": self._namespace}
        return {
            "name": f"validate.{GROUP}",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
            "clientConfig": {
                "service": {**service, "path": "/validate", "port": 443},
                "caBundle": bundle,
            },
            "rules": RULES,
        }


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    """Python loads certificates from files alone; connections from now on get this one."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        certificate.write_bytes(pair.certificate)
        with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(pair.key)
        context.load_cert_chain(certificate, key)
