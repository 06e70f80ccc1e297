"""How many commands a second one core's `Node.step` runs: `python bench/core_plane.py`.

Each row is the rate of commands through `Node.step(Commanded(...))`, the median of some runs, and
how many times as long one command takes as one turn of a bare loop that reads or writes a
dictionary, measured in between. Rates are this machine's; the ratios tell of a change.

With a backup, the second member's work is not done: each frame for it is acknowledged at once, and
the first one's work with the acknowledgement counts. Every few events come at a later millisecond,
so that the clock, the leases and the timers are looked at as they are by a running member.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from itertools import count as count_from
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "node" / "src")]

from bench.plane_cluster import Quiet
from holdfast.core.data.content import tree_of
from holdfast.core.data.plane import slot_of
from holdfast.core.data_messages import BackupAck, BackupFrame
from holdfast.core.effects import Reply, Send
from holdfast.core.events import Commanded, Event, Received
from holdfast.core.node import Node
from holdfast.core.stores.settings import NameSettings
from holdfast.ids import Millis

VALUE = b"x" * 100
KEYS = 20_000
COMMANDS = 24_000
REPEATS = 5
EVENTS_A_MS = 4
"""Events before the clock goes on by a millisecond."""


def keys_of(node: Node) -> list[bytes]:
    """Keys that this member owns."""
    count = node.context.config.partition_count
    rows, keys = node.table.rows, []
    for number in count_from(0):
        key = b"users:%d" % number
        if rows[slot_of(key) * count >> 14].owner == node.me.id:
            keys.append(key)
        if len(keys) == KEYS:
            return keys
    return keys


def events(
    verb: bytes, sessions: int, batch: int, keys: list[bytes], chance: Random
) -> list[Commanded]:
    """Commands on random keys, so many of each session in an event; each key an object of its own,
    as a parser makes them."""
    rest = [VALUE] if verb == b"SET" else []

    def command() -> list[bytes]:
        return [verb, bytes(bytearray(chance.choice(keys))), *rest]

    return [
        Commanded(
            tuple(
                (session, [command() for _ in range(batch)]) for session in range(1, sessions + 1)
            )
        )
        for _ in range(COMMANDS // (sessions * batch))
    ]


def fill(cluster: Quiet) -> None:
    """Every key is there."""
    keys = keys_of(cluster.first)
    for number in range(0, KEYS, 100):
        commands = [[b"SET", key, VALUE] for key in keys[number : number + 100]]
        cluster.step(cluster.first.me.address, Commanded(((1, commands),)))
        cluster.carry()
        if number % 1000 == 0:
            cluster.pass_time()


class Clock:
    """Steps of the first member, and the time that they take."""

    def __init__(self, cluster: Quiet) -> None:
        self.cluster = cluster
        self.node = cluster.first
        self.origins = {each.me.address: each.origin for each in cluster.nodes.values()}
        self.took = 0.0
        self.replies = 0

    def step(self, event: Event) -> None:
        """One event, and the acknowledgements of what it sends."""
        begun = time.process_time()
        effects = self.node.step(event, Millis(self.cluster.now))
        self.took += time.process_time() - begun
        for effect in effects:
            if isinstance(effect, Reply):
                self.replies += 1
            elif isinstance(effect, Send) and isinstance(effect.message, BackupFrame):
                ack = BackupAck(effect.message.number, 1, ())
                self.step(Received(self.origins[effect.to], ack))


def run(cluster: Quiet, work: Sequence[Commanded]) -> float:
    """Seconds that the first member takes for these events and what they entail."""
    clock = Clock(cluster)
    for number, event in enumerate(work):
        if number % EVENTS_A_MS == 0:
            cluster.now += 1
        clock.step(event)
        if number % 100 == 0:
            cluster.pass_time()
    wanted = sum(len(event.batches) for event in work)
    assert clock.replies == wanted, f"{clock.replies} replies to {wanted} batches"
    return clock.took


def bare(work: Sequence[Commanded], records: dict[bytes, bytes]) -> float:
    """The same keys by a loop over a dictionary."""
    keys = [command[1] for event in work for _, batch in event.batches for command in batch]
    write = work[0].batches[0][1][0][0] == b"SET"
    begun = time.process_time()
    if write:
        for key in keys:
            records[key] = VALUE
    else:
        for key in keys:
            records[key]
    return time.process_time() - begun


def measure(cluster: Quiet, verb: bytes, sessions: int, batch: int) -> tuple[float, float]:
    """Seconds a command, and seconds a turn of the bare loop."""
    chance = Random(1)
    keys = keys_of(cluster.first)
    records = dict.fromkeys(keys, VALUE)
    times, yards = [], []
    for _ in range(REPEATS):
        work = events(verb, sessions, batch, keys, chance)
        count = len(work) * sessions * batch
        times.append(run(cluster, work) / count)
        yards.append(bare(work, records) / count)
    return statistics.median(times), statistics.median(yards)


def make_trees(cluster: Quiet) -> None:
    """Have every fragment keep its tree, as after a comparison of every copy."""
    for holding in cluster.first.data.holdings.here.values():
        for fragment in holding.space:
            tree_of(fragment)


TREES = "backup, Merkle trees"
ROWS = (
    ("one member", 1, NameSettings()),
    ("backup", 2, NameSettings(backups=1)),
    ("backup, no journal", 2, NameSettings(backups=1, journal_entries=0, journal_bytes=0)),
    (TREES, 2, NameSettings()),
)
LOADS = ((b"GET", 1, 16), (b"SET", 1, 16), (b"GET", 50, 16), (b"SET", 50, 16), (b"GET", 50, 1),
         (b"SET", 50, 1))  # fmt: skip


def main() -> None:
    """Measure all and print a table."""
    lines = [f"{'':28}{'sessions x batch':>18}{'M/s':>8}{'us':>8}{'bare us':>9}{'ratio':>7}"]
    for name, members, settings in ROWS:
        cluster = Quiet(members, settings)
        fill(cluster)
        if name == TREES:
            make_trees(cluster)
        for verb, sessions, batch in LOADS:
            took, yard = measure(cluster, verb, sessions, batch)
            lines.append(
                f"{verb.decode() + ' ' + name:28}{f'{sessions} x {batch}':>18}"
                f"{1e-6 / took:8.3f}{took * 1e6:8.2f}{yard * 1e6:9.3f}{took / yard:7.1f}"
            )
            sys.stdout.write(lines[-1] + "\n" if len(lines) > 2 else "\n".join(lines) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
