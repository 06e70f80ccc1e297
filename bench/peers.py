"""Redis, as the bench starts it: one server, or a Redis Cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from bench.members import wait_served
from bench.processes import HOST, Process, Stage, program, wait_for
from holdfast.shell.free_ports import free_ports


@dataclass(frozen=True, slots=True)
class Server:
    """One redis-server."""

    process: Process
    port: int
    started_seconds: float = 0.0
    """From the start until a client's write was done."""

    @property
    def address(self) -> str:
        """Of its clients."""
        return f"{HOST}:{self.port}"

    def ask(self, *command: str) -> str:
        """What redis-cli prints."""
        return cli("-p", str(self.port), *command)


def cli(*arguments: str, seconds: float = 600) -> str:
    """Run redis-cli; raise what it says if it fails."""
    done = subprocess.run(
        [program("redis-cli"), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"redis-cli {' '.join(arguments)}: {done.stdout[-500:]}{done.stderr}")
    return done.stdout


def version() -> str:
    """Of redis-server."""
    done = subprocess.run([program("redis-server"), "--version"], capture_output=True, check=True)
    return done.stdout.decode().strip()


def start(stage: Stage, *options: str) -> Server:
    """A server without files."""
    port = free_ports(HOST, 1)[0]
    arguments = [program("redis-server"), "--port", str(port), "--bind", HOST, "--save", ""]
    process = stage.start("redis", [*arguments, "--appendonly", "no", *options])
    return Server(process, port)


def single(stage: Stage, *options: str) -> Server:
    """One that serves."""
    server = start(stage, *options)
    return Server(server.process, server.port, wait_served(server.process, server.port))


class RedisCluster:
    """Masters and their replicas."""

    def __init__(self, stage: Stage, *, timeout_ms: int = 15_000) -> None:
        self._stage = stage
        self._options = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(timeout_ms)]
        self._options += ["--cluster-allow-replica-migration", "no"]  # an empty master stays one
        self.servers: list[Server] = []

    def form(self, masters: int, replicas: int) -> RedisCluster:
        """Create it, and wait until it serves."""
        self.servers = [self._start() for _ in range(masters * (1 + replicas))]
        addresses = [server.address for server in self.servers]
        cli("--cluster", "create", *addresses, "--cluster-replicas", str(replicas), "--cluster-yes")
        self.wait_ok(self.servers)
        return self

    def _start(self) -> Server:
        server = start(self._stage, *self._options)
        wait_for(lambda: _pings(server), "a node of Redis Cluster answers")
        return server

    def add(self) -> Server:
        """One more master, which has no slots yet."""
        server = self._start()
        cli("--cluster", "add-node", server.address, self.servers[0].address)
        self.servers.append(server)
        count = len(self.servers)

        def known() -> bool:
            return all(
                f"cluster_known_nodes:{count}" in each.ask("cluster", "info")
                for each in self.servers
            )

        wait_for(known, "all nodes know the new one", step=0.2)
        self.wait_ok(self.servers)
        return server

    def rebalance(self, *options: str) -> None:
        """Move slots."""
        cli("--cluster", "rebalance", self.servers[0].address, *options)

    @staticmethod
    def wait_ok(servers: Sequence[Server]) -> None:
        """Until all say that every slot is served."""

        def fine() -> bool:
            return all("cluster_state:ok" in each.ask("cluster", "info") for each in servers)

        wait_for(fine, "Redis Cluster is ok", step=0.1)


def _pings(server: Server) -> bool:
    server.process.check_alive()
    try:
        with redis.Redis(port=server.port, protocol=2, socket_timeout=1) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
