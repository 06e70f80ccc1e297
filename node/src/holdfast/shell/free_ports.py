"""Ports that are free, for processes that are told theirs before they start.

What the system gives to who asks for any port is no use for that: once it is let go, the next
connection that anybody opens may leave from it, and whoever was told of it can't listen there. So
a port is taken by chance from those that the system gives to nobody (on Linux and macOS its own
begin at 32768 and 49152), where only who was told of it comes.
"""

from __future__ import annotations

import errno
import socket
from itertools import islice
from random import SystemRandom
from typing import Final

CALM: Final = range(10_000, 22_768)
"""What is 10,000 above is calm, too: a node of Redis Cluster listens there as well."""


def free_ports(host: str, count: int) -> list[int]:
    """Different ports on which nobody listens now, and to which no connection is given."""
    drawn = SystemRandom().sample(CALM, len(CALM))
    found = list(islice((port for port in drawn if is_free(host, port)), count))
    if len(found) < count:
        raise OSError(errno.EADDRINUSE, f"{count} ports are needed, {len(found)} are free")
    return found


def is_free(host: str, port: int) -> bool:
    """Whether a process could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
