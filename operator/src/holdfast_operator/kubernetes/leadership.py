"""Leadership of one of several operators, by a Lease.

Rules
-----
* Who finds the Lease free, expired, or its own, writes itself into it, against the version that it
  read: of two who do so at once one is refused.
* The leader renews it. If it could not for `RENEW_WITHIN`, it stops leading before anyone else can
  begin: `DURATION` counts for the others from when they *saw* the last renewal, by their own clock,
  so clocks are never compared.
* Who ends gives the Lease back: the next one leads at once.
* A name stays with its pod: a container that starts again takes up its own Lease.

What can go wrong
-----------------
A leader that sleeps over its Lease may still finish an action that it began. Actions can be
repeated and name the exact object, so two that act on the same plan do no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.kubernetes.errors import Conflict, KubernetesError, Missing
from holdfast_operator.observed import Raw

LOG: Final = logging.getLogger("holdfast.operator.leadership")
DURATION: Final = 30.0
RENEW_EVERY: Final = 10.0
RENEW_WITHIN: Final = 24.0
TRY_EVERY: Final = 10.0
AGAIN_AFTER: Final = 2.0
"""When a renewal failed."""


class Leadership:
    """Whether this operator acts."""

    def __init__(
        self, api: Kubernetes, namespace: str, name: str, me: str, clock: Callable[[], float]
    ) -> None:
        self._api = api
        self._namespace, self._name, self.me = namespace, name, me
        self._clock = clock
        self._renewed_at: float | None = None
        self._ours: Raw | None = None
        """The Lease as we wrote it: renewing it costs one request."""
        self._seen: tuple[str, float] = ("", clock())
        self.changed: Callable[[], None] = lambda: None
        """Called when this one begins or ends to lead."""

    @property
    def leads(self) -> bool:
        """By our own clock, and earlier than others think."""
        at = self._renewed_at
        return at is not None and self._clock() - at < RENEW_WITHIN

    async def run(self) -> None:
        """Try to lead, and go on leading, until cancelled."""
        while True:
            done = await self.step()
            every = RENEW_EVERY if self.leads else TRY_EVERY
            await asyncio.sleep(every if done else AGAIN_AFTER)

    async def step(self) -> bool:
        """Once; whether the API server answered."""
        led = self._renewed_at is not None
        at, done = self._clock(), True
        try:
            if await self._take():
                self._renewed_at = at
        except KubernetesError as error:
            LOG.warning("the lease could not be renewed: %s", error)
            done = False
        if self._renewed_at is not None and not self.leads:
            self._renewed_at = None
        if self._renewed_at is not None and not led:
            LOG.info("%s leads", self.me)
            self.changed()
        if self._renewed_at is None and led:
            LOG.warning("%s leads no more", self.me)
            self.changed()
        return done

    async def _take(self) -> bool:
        lease = self._ours
        self._ours = None
        if lease is None:
            try:
                lease = await self._api.get("Lease", self._namespace, self._name)
            except Missing:
                lease = None
        if lease is not None and not self._is_free(lease):
            self._renewed_at = None
            return False
        try:
            if lease is None:
                self._ours = await self._api.create("Lease", self._body(1))
            else:
                changes = lease["spec"].get("leaseTransitions", 0)
                same = lease["spec"].get("holderIdentity") == self.me
                body = self._body(changes if same else changes + 1)
                body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
                self._ours = await self._api.replace("Lease", body)
        except Conflict:
            return False
        return True

    def _is_free(self, lease: Raw) -> bool:
        spec = lease["spec"]
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self.me):
            return True
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, self._clock())
        lasts = float(spec.get("leaseDurationSeconds", DURATION))
        return self._clock() - self._seen[1] > lasts

    def _body(self, changes: int) -> Raw:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self.me,
                "leaseDurationSeconds": round(DURATION),
                "renewTime": now,
                "leaseTransitions": changes,
            },
        }

    async def give_back(self) -> None:
        """The next one need not wait."""
        if not self.leads:
            return
        self._renewed_at = self._ours = None
        self.changed()
        with suppress(KubernetesError):
            lease = await self._api.get("Lease", self._namespace, self._name)
            if lease["spec"].get("holderIdentity") == self.me:
                lease["spec"]["holderIdentity"] = ""
                lease["metadata"].pop("managedFields", None)
                await self._api.replace("Lease", lease)
