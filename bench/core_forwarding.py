"""What the plain port costs where a key is another member's: `python bench/core_forwarding.py`.

Two members, the second of which is asked for keys of the first. Each member's own time counts: the
steps, and the encoding and decoding of what they send one another. As members are processes of
their own, the slower of the two is what a client sees. The first column is the owner's rate when
its own clients ask it the same.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "node" / "src")]

from bench.core_plane import events, fill, keys_of
from bench.plane_cluster import Quiet
from holdfast.core.effects import Reply, Send
from holdfast.core.events import Commanded, Event, Opened, Received
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import Address, Millis
from holdfast.wire.codec import decode, encode

REPEATS = 5
LOADS = ((b"GET", 1, 16), (b"SET", 1, 16), (b"GET", 50, 16), (b"SET", 50, 16), (b"GET", 50, 1),
         (b"SET", 50, 1))  # fmt: skip


class Pair:
    """Both members, and the time that each takes."""

    def __init__(self, cluster: Quiet) -> None:
        self.cluster = cluster
        self.took = dict.fromkeys(cluster.nodes, 0.0)
        self.replies = 0
        self._mail: deque[tuple[Address, bytes]] = deque()

    def step(self, address: Address, event: Event) -> None:
        """One step; what it sends is encoded."""
        node = self.cluster.nodes[address]
        begun = time.process_time()
        effects = node.step(event, Millis(self.cluster.now))
        for effect in effects:
            if isinstance(effect, Reply):
                self.replies += 1
            elif isinstance(effect, Send):
                self._mail.append((effect.to, encode(node.origin, effect.message)))
        self.took[address] += time.process_time() - begun

    def carry(self) -> None:
        """Everything that is on its way arrives."""
        while self._mail:
            to, frame = self._mail.popleft()
            begun = time.process_time()
            origin, message = decode(frame)
            self.took[to] += time.process_time() - begun
            self.step(to, Received(origin, message))


def run(cluster: Quiet, address: Address, work: list[Commanded]) -> float:
    """Seconds of whichever member takes longer, for these events at one of them."""
    pair = Pair(cluster)
    for number, event in enumerate(work):
        pair.step(address, event)
        pair.carry()
        if number % 4 == 0:
            cluster.now += 1
        if number % 100 == 0:
            cluster.pass_time()
    wanted = sum(len(event.batches) for event in work)
    assert pair.replies == wanted, f"{pair.replies} replies to {wanted} batches"
    return max(pair.took.values())


def main() -> None:
    """Measure all and print a table."""
    sys.stdout.write(
        f"{'':20}{'sessions x batch':>18}{'owner us':>10}{'plain us':>10}{'rate':>7}\n"
    )
    for backups in (0, 1):
        cluster = Quiet(2, NameSettings(backups=backups))
        fill(cluster)
        owner, other = cluster.nodes
        keys, chance = keys_of(cluster.first), Random(1)
        for session in range(1, 51):
            cluster.step(other, Opened(session, forwards=True, peer=""))
        for verb, sessions, batch in LOADS:
            times: dict[Address, list[float]] = {owner: [], other: []}
            for _ in range(REPEATS):
                for address, found in times.items():
                    work = events(verb, sessions, batch, keys, chance)
                    found.append(run(cluster, address, work) / (len(work) * sessions * batch))
            here, there = (statistics.median(times[address]) for address in (owner, other))
            sys.stdout.write(
                f"{verb.decode()}, {backups} backups{'':7}{f'{sessions} x {batch}':>18}"
                f"{here * 1e6:10.2f}{there * 1e6:10.2f}{here / there:7.2f}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
