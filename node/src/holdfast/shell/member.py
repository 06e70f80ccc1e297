"""A running member: its node, its driver, its connections. What others hang on to it.

`Member` is what an HTTP server or a console gets. It may look at everything (`node`, the counters)
and acts by `driver.ask` and `driver.give` alone.
"""

from __future__ import annotations

import os
import platform
import random
import resource
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Protocol

import holdfast
from holdfast.core.node import Node
from holdfast.core.observing import unready
from holdfast.core.views import Endpoints
from holdfast.ids import Address
from holdfast.shell.driver import Driver
from holdfast.shell.handshake import Myself
from holdfast.shell.identity import member_of
from holdfast.shell.keeper import Keeper
from holdfast.shell.link import Links, OnRefused
from holdfast.shell.memory import memory_bytes, memory_bytes_max
from holdfast.shell.ports import Listeners, port_of
from holdfast.shell.resp import RespServer
from holdfast.shell.settings import Settings


class HttpServer(Protocol):
    """What answers on the HTTP port."""

    async def start(self, member: Member, listener: socket.socket) -> None:
        """Serve on this socket, which is bound; return once it listens."""

    def warm(self) -> None:
        """Load what is not needed before applications are served."""

    async def stop(self) -> None:
        """Answer what is under way, then end."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether applications are served here, and if not, why."""

    ready: bool
    reason: str


class Member:
    """One member of a cluster, in this process."""

    def __init__(
        self,
        settings: Settings,
        listeners: Listeners,
        http: HttpServer | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.settings = settings
        self.keeper = keeper
        """Its files, if it has any."""
        self.started_at = time.time()
        """Seconds since 1970."""
        self._listeners = listeners
        self._http = http
        address = settings.address(port_of(listeners.member))
        self.endpoints = Endpoints(
            plain=settings.address(port_of(listeners.plain)),
            cluster=settings.address(port_of(listeners.cluster)),
            http=Address("")
            if listeners.http is None
            else settings.address(port_of(listeners.http)),
        )
        me = member_of(
            name=settings.name,
            address=address,
            group=settings.group,
            kind=settings.options.kind,
            endpoints=self.endpoints,
            known=None if keeper is None else (keeper.member, keeper.incarnation),
        )
        chance = random.Random(secrets.randbits(128))  # noqa: S311 - what to evict is no secret
        self.node = Node(settings.core, me, chance)
        self.clients = RespServer(settings.limits, connections_max=settings.options.connections_max)
        self.links = Links(Myself(settings.core.cluster_name, address, settings.secret))
        self.driver = Driver(self.node, carrier=self.links, clients=self.clients, files=keeper)

    @property
    def address(self) -> Address:
        """Where other members reach this one."""
        return self.node.me.address

    def note_facts(self) -> None:
        """Write down what the node can't know of its process, and tells who asks."""
        facts, stats = self.node.facts, self.clients.stats
        used = resource.getrusage(resource.RUSAGE_SELF)
        facts.memory_used_bytes, facts.memory_peak_bytes = memory_bytes(), memory_bytes_max()
        facts.cpu_user_s, facts.cpu_system_s = used.ru_utime, used.ru_stime
        facts.connections_received = stats.connections_total
        facts.connections_refused = stats.refused_connections
        facts.bytes_in, facts.bytes_out = stats.received_bytes, stats.sent_bytes
        facts.links = self.links.facts()

    def _introduce(self) -> None:
        """What stays as it is."""
        facts = self.node.facts
        facts.version, facts.process_id = holdfast.__version__, os.getpid()
        facts.os = f"{platform.system()} {platform.release()} {platform.machine()}"
        facts.plain_port = port_of(self._listeners.plain)
        facts.connections_max = self.settings.options.connections_max
        self.driver.on_second = self.note_facts

    async def start(self, on_refused: OnRefused) -> None:
        """Listen, and look for the cluster."""
        self._introduce()
        listeners, driver = self._listeners, self.driver
        tls = self.settings.tls
        await self.links.serve(listeners.member, driver.receive, on_refused, tls=tls)
        await self.clients.serve(listeners.plain, driver, forwards=True)
        await self.clients.serve(listeners.cluster, driver, forwards=False)
        if self._http is not None and listeners.http is not None:
            await self._http.start(self, listeners.http)
        if self.keeper is None:
            driver.start()
            return
        self.keeper.start(self.node, driver)
        image, self.keeper.image = self.keeper.image, None
        driver.start(image)

    def warm(self) -> None:
        """Do what could wait until applications are served."""
        if self._http is not None:
            self._http.warm()

    async def stop(self) -> None:
        """Close everything; what is written already still goes out."""
        if self._http is not None:
            await self._http.stop()
        self.clients.close()
        await self.links.close()
        if self.keeper is not None:
            await self.keeper.close()

    # Windows ------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Whether this member answers applications at this moment."""
        reason = unready(self.node, self.driver.clock.read())
        return Health(ready=not reason, reason=reason)

    def held_partitions(self) -> int:
        """Partitions of which this member has a copy by the table."""
        me = self.node.me.id
        return sum(me in row.replicas for row in self.node.table.rows)

    def has_connections(self) -> bool:
        """Whether anyone is still connected."""
        return bool(self.clients.sessions) or self.links.has_connections()
