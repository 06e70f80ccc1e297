"""The ports of a member, bound before anything else: a port that is taken ends the start."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import Final

from holdfast.errors import HoldfastError

BACKLOG: Final = 1_024
"""Connections that wait to be accepted."""


class PortTaken(HoldfastError):
    """A port can't be listened on; the message says which, and why."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Bound sockets; none of them listens yet."""

    plain: socket.socket
    cluster: socket.socket
    member: socket.socket
    http: socket.socket | None

    def close(self) -> None:
        """Give the ports back."""
        for listener in (self.plain, self.cluster, self.member, self.http):
            if listener is not None:
                listener.close()


def port_of(listener: socket.socket) -> int:
    """The port, also when a free one was asked for."""
    port = listener.getsockname()[1]
    assert isinstance(port, int)
    return port


def bind_all(host: str, *, plain: int, cluster: int, member: int, http: int | None) -> Listeners:
    """All ports or none."""
    wanted = {"port_plain": plain, "port_cluster": cluster, "port_member": member}
    if http is not None:
        wanted["port_http"] = http
    bound: dict[str, socket.socket] = {}
    try:
        for name, port in wanted.items():
            bound[name] = _bind(name, host, port)
    except PortTaken:
        for listener in bound.values():
            listener.close()
        raise
    return Listeners(
        bound["port_plain"], bound["port_cluster"], bound["port_member"], bound.get("port_http")
    )


def _bind(name: str, host: str, port: int) -> socket.socket:
    listener = None
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        why = "another process listens there" if error.errno == errno.EADDRINUSE else error.strerror
        raise PortTaken(f"{name}: {host}:{port} can't be listened on: {why}") from error
    return listener
