"""An operator from its start to its end: everything that runs side by side in one loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import kopf

from holdfast_operator.kubernetes.access import Access, find
from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.kubernetes.leadership import Leadership
from holdfast_operator.observed import Defaults
from holdfast_operator.options import Options
from holdfast_operator.running.applying import Herald
from holdfast_operator.running.cache import Cache, Key
from holdfast_operator.running.handlers import make_registry
from holdfast_operator.running.metrics import Metrics
from holdfast_operator.running.reconciling import Loops, Means
from holdfast_operator.running.serving import Doors
from holdfast_operator.webhook.keeping import Keeper
from holdfast_operator.webhook.reviewing import review

LOG: Final = logging.getLogger("holdfast.operator")


class Operator:
    """One of the replicas."""

    def __init__(self, options: Options, access: Access | None = None) -> None:
        self.options = options
        self.access = access or find()
        self.metrics = Metrics()
        self.cache = Cache(sees_nodes=options.nodes)
        self.api = Kubernetes(self.access, count=self.metrics.of_request)
        clock = asyncio.get_running_loop().time
        self.leadership = Leadership(
            self.api, options.own_namespace, options.lease, options.identity, clock
        )
        self.loops = Loops(
            Means(
                self.api,
                self.cache,
                self.metrics,
                Herald(self.api, options.identity),
                Defaults(options.image, options.pull_policy),
                self._acts,
                options.dry_run,
            )
        )
        self.leadership.changed = self.loops.wake_all
        self.keeper = self._make_keeper()
        self.doors = Doors(self.metrics, self.unready)
        self.stopping = asyncio.Event()
        self.watching = asyncio.Event()

    def _acts(self) -> bool:
        return self.options.dry_run or self.leadership.leads

    def _make_keeper(self) -> Keeper | None:
        options = self.options
        if not options.webhook_service:
            return None
        return Keeper(
            self.api,
            options.own_namespace,
            options.webhook_service,
            secret=options.webhook_secret,
            configuration=options.webhook_configuration,
        )

    def unready(self) -> str:
        """Why it is not ready; empty if it is."""
        if not self.watching.is_set():
            return "what is watched is not known yet"
        if self.keeper is not None and not self.keeper.has_certificate:
            return "the webhook has no certificate yet"
        return ""

    async def run(self) -> None:
        """Until it is told to stop."""
        loop = asyncio.get_running_loop()
        options = self.options
        await self.doors.open_plain(options.bind, options.port)
        tasks = [loop.create_task(self._watch())]
        if not options.dry_run:
            tasks.append(loop.create_task(self.leadership.run()))
        if self.keeper is not None:
            context = self.keeper.context
            await self.doors.open_admission(
                options.bind, options.webhook_port, self._review, context
            )
            tasks.append(loop.create_task(self.keeper.run()))
        stop = loop.create_task(self.stopping.wait())
        try:
            done, _ = await asyncio.wait((*tasks, stop), return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
        finally:
            await self._close([*tasks, stop])

    async def _close(self, tasks: list[asyncio.Task[Any]]) -> None:
        self.stopping.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.loops.close()
        await self.leadership.give_back()
        await self.doors.close()
        await self.api.__aexit__(None, None, None)

    async def _review(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = review(request, lambda: self.cache.sees_nodes)
        allowed = str(answer["response"]["allowed"]).lower()
        self.metrics.count("reviews_total", "Admission reviews.", allowed=allowed)
        return answer

    def _wake(self, key: Key) -> None:
        self.watching.set()
        self.loops.wake(key)

    def _wake_restore(self, key: Key) -> None:
        self.watching.set()
        self.loops.wake_restore(key)

    async def _watch(self) -> None:
        registry = make_registry(
            self.cache, self._wake, self._wake_restore, nodes=self.options.nodes
        )
        kopf.on.login(registry=registry, id="login")(self._login)
        kopf.on.startup(registry=registry, id="settings")(_configure)
        # `kopf.operator` would cancel everything in this loop that began after it, our tasks too
        tasks = await kopf.spawn_tasks(
            registry=registry,
            standalone=True,
            # otherwise it asks for the name of its user, who has none in a container
            identity=self.options.identity,  # type: ignore[arg-type] # a str; its type is private
            namespaces=list(self.options.namespaces),
            clusterwide=not self.options.namespaces,
            ready_flag=self.watching,
            memo=kopf.Memo(),
        )
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _login(self, **_: Any) -> kopf.ConnectionInfo:
        access = self.access
        return kopf.ConnectionInfo(
            server=access.server,
            ca_path=access.authority or None,
            insecure=access.insecure or None,
            token=access.bearer() or None,
            certificate_path=access.certificate or None,
            private_key_path=access.key or None,
            default_namespace=access.namespace,
        )


def _configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.scanning.disabled = True  # its own definitions do not come and go
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
