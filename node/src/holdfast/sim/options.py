"""The mix of one seed: sizes, settings, and what goes wrong how often.

Each seed draws its own mix (*swarm*): a feature that is always on hides the bugs that need it off,
so every fault and every kind of request is off in some seeds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from holdfast.core.config import LEVEL_MAX, Config, Quorum, RecoveryPolicy
from holdfast.core.stores.settings import NameSettings
from holdfast.core.views import Kind
from holdfast.ids import REPLICA_COUNT_MAX, Address, Millis
from holdfast.sim.network import NetworkOptions
from holdfast.sim.process import Site
from holdfast.sim.surroundings import Shell
from holdfast.sim.timeline import MILLISECOND

Drawn = TypeVar("Drawn")

MEMBERS_MAX: Final = 12

FAULTS: Final = (
    "crash",
    "crash inside a step",
    "pause",
    "pause inside a step",
    "destroy",
    "cut",
    "split",
    "flap",
    "slow",
    "mute",
    "clock",
    "blackout",
)
"""Everything that may go wrong; `faults` says what each does."""

ASKS: Final = ("state", "leave", "promote", "demote", "level", "join")
"""Everything that an administrator may do; `workload` says how."""

MEMBERS_WEIGHTS: Final = {
    1: 3, 2: 10, 3: 25, 4: 18, 5: 16, 6: 8, 7: 6, 8: 4, 9: 3, 10: 3, 11: 2, 12: 2,
}  # fmt: skip
PARTITIONS_WEIGHTS: Final = {1: 10, 2: 10, 3: 15, 4: 15, 6: 15, 8: 15, 13: 10, 20: 6, 32: 4}


@dataclass(frozen=True, slots=True)
class Options:
    """What a seed drew."""

    seed: int
    sites: tuple[Site, ...]
    config: Config
    network: NetworkOptions
    shell: Shell
    faults: tuple[tuple[str, int], ...]
    """Weight of each kind of fault that may happen."""
    fault_gap_ms: int
    """Mean time between two faults."""
    asks: tuple[tuple[str, int], ...]
    """Weight of each kind of request that may be made."""
    ask_gap_ms: int
    start_spread_ms: int
    """Within what time the processes start at first."""
    safety_ms: int
    """How long things go wrong."""
    clients: int
    client_think_ms: int
    """Mean time between an answer and the next command of a client."""
    wall_skew_ms: int
    """How wrong the time of day may be anywhere."""
    aim_gap_ms: int
    """Mean time between two faults that are aimed at the data; 0: there are none."""

    def table(self) -> tuple[tuple[str, str], ...]:
        """Name and value of everything that was drawn, for people."""
        lines = [
            ("members", " ".join(_site_text(site) for site in self.sites)),
            *_flat("config", self.config),
            *_flat("network", self.network),
            *_flat("shell", self.shell),
            ("faults", _weights_text(self.faults)),
            ("fault_gap_ms", str(self.fault_gap_ms)),
            ("asks", _weights_text(self.asks)),
            ("ask_gap_ms", str(self.ask_gap_ms)),
            ("start_spread_ms", str(self.start_spread_ms)),
            ("safety_ms", str(self.safety_ms)),
            ("clients", f"{self.clients}, thinking {self.client_think_ms} ms"),
            ("wall_skew_ms", str(self.wall_skew_ms)),
            ("aim_gap_ms", str(self.aim_gap_ms)),
        ]
        return tuple(lines)


def _site_text(site: Site) -> str:
    disk = "+disk" if site.persistent else ""
    level = "" if site.level_max == LEVEL_MAX else f"≤{site.level_max}"
    return f"{site.name}:{site.kind}:{site.group}{disk}{level}"


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    assert is_dataclass(value)
    return [(f"{name}.{field.name}", str(getattr(value, field.name))) for field in fields(value)]


def _weights_text(weights: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {weight}" for name, weight in weights) or "none"


# Drawing --------------------------------------------------------------------------------------


def draw_options(seed: int, rng: random.Random) -> Options:
    """Everything that a run depends on besides the code."""
    sites = draw_sites(rng)
    chance = random.Random(f"applications of {seed}")  # with none of them all else is as drawn
    return Options(
        seed=seed,
        sites=sites,
        config=draw_data(chance, draw_config(rng, sites)),
        network=draw_network(rng),
        shell=replace(draw_shell(rng), lazy_us=draw_laziness(seed), turn_us=draw_turns(seed)),
        faults=draw_mix(rng, FAULTS),
        fault_gap_ms=rng.choice((400, 1_000, 2_500, 6_000)),
        asks=draw_mix(rng, ASKS),
        ask_gap_ms=rng.choice((700, 2_000, 5_000)),
        start_spread_ms=rng.choice((0, 200, 3_000)),
        safety_ms=rng.choice((15_000, 25_000, 40_000)),
        clients=chance.choice((0, 2, 4, 6)),
        client_think_ms=chance.choice((50, 200, 500)),
        wall_skew_ms=chance.choice((0, 20, 300)),
        aim_gap_ms=chance.choice((0, 700, 2_500)),
    )


def weighted(rng: random.Random, weights: dict[Drawn, int]) -> Drawn:
    """One of the keys."""
    return rng.choices(list(weights), list(weights.values()))[0]


def draw_mix(rng: random.Random, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Some of the names with weights; sometimes one alone, sometimes none."""
    if rng.random() < 0.1:
        return ((rng.choice(names), 1),) if rng.random() < 0.7 else ()
    return tuple((name, rng.choice((1, 1, 3, 8))) for name in names if rng.random() < 0.55)


def draw_sites(rng: random.Random) -> tuple[Site, ...]:
    """The places where members run at first. The first is a data member."""
    count = weighted(rng, MEMBERS_WEIGHTS)
    lite = rng.choice((0.0, 0.0, 0.2, 0.5))
    groups = rng.choice((1, 2, 3, count, count))
    disks = rng.choice((0.0, 0.0, 1.0, 1.0, 0.5))
    level_max = rng.choice((LEVEL_MAX,) * 9 + (2,))
    return tuple(
        Site(
            number=number,
            name=f"m{number:02}",
            address=Address(f"m{number:02}:5701"),
            group=f"g{number % groups}",
            kind=Kind.LITE if number and rng.random() < lite else Kind.DATA,
            persistent=rng.random() < disks,
            level_max=level_max if number == count - 1 else LEVEL_MAX,
        )
        for number in range(count)
    )


def draw_config(rng: random.Random, sites: Sequence[Site]) -> Config:
    """Settings of all members. Times stay at their defaults mostly: virtual time costs nothing."""
    data = [site.address for site in sites if site.kind is Kind.DATA]
    replica_count = rng.choice((1, 2, 2, 3, 3, 4, REPLICA_COUNT_MAX))
    level = rng.choice((1, 2, LEVEL_MAX, LEVEL_MAX, LEVEL_MAX))
    config = Config(
        initial=tuple(data[: rng.choice((1, 2, 3, 3, 5))]),
        partition_count=weighted(rng, PARTITIONS_WEIGHTS),
        replica_count=replica_count,
        backup_count=min(rng.choice((0, 1, 1, 2)), replica_count - 1),
        level=min(level, *(site.level_max for site in sites)),
        migrations_parallel_max=rng.choice((1, 2, 3, 10)),
        rejoin_grace_ms=Millis(rng.choice((0, 1_000, 5_000, 30_000))),
        stable_repair_after_ms=rng.choice((None, Millis(0), Millis(3_000))),
        quorum=Quorum.MAJORITY,
        recovery_policy=draw_policy(rng, sites),
        plan_slice_rows=rng.choice((1, 4, 256)),
    )

    if rng.random() < 0.5:
        return config
    return replace(
        config,
        stamp_check_ms=Millis(rng.choice((1_000, 15_000))),
        migration_timeout_ms=Millis(rng.choice((3_000, 30_000))),
        change_lock_ms=Millis(rng.choice((2_000, 10_000))),
        request_timeout_ms=Millis(rng.choice((5_000, 600_000))),
        validation_timeout_ms=Millis(rng.choice((10_000, 120_000))),
        forming_patience_ms=Millis(rng.choice((0, 2_000))),
    )


def draw_data(chance: random.Random, config: Config) -> Config:
    """Settings of the data: as many backups as are promised, memories that are soon full."""
    names = NameSettings(
        backups=config.backup_count,
        journal_entries=chance.choice((4, 64, 256)),
        merkle_depth=chance.choice((2, 5, 10)),
    )
    return replace(
        config,
        unnamed=names,
        backup_bytes_max=chance.choice((500, 64 << 20, 64 << 20)),
        sync_interval_ms=Millis(chance.choice((1_000, 5_000, 30_000))),
        syncs_parallel_max=chance.choice((1, 8)),
        operation_timeout_ms=Millis(chance.choice((1_000, 5_000))),
    )


def draw_policy(rng: random.Random, sites: Sequence[Site]) -> RecoveryPolicy:
    """FULL waits for every listed member, for ever: only where all come back, or none."""
    policy = rng.choice(tuple(RecoveryPolicy))
    mixed = len({site.persistent for site in sites}) > 1
    return RecoveryPolicy.MOST_RECENT if mixed and policy is RecoveryPolicy.FULL else policy


def draw_network(rng: random.Random) -> NetworkOptions:
    """A good network, or one that is bad in some ways."""
    return NetworkOptions(
        delay_us=rng.choice((200, 1_000, 1_000, 10_000, 50_000)),
        loss=rng.choice((0.0, 0.0, 0.001, 0.02, 0.1)),
        tail=rng.choice((0.0, 0.0, 0.01, 0.1)),
        duplication=rng.choice((0.0, 0.0, 0.01, 0.1)),
        damage=rng.choice((0.0, 0.0, 0.0, 0.002)),
        ordered=rng.random() < 0.5,
    )


def draw_laziness(seed: int) -> int:
    """Of the disks; drawn apart, so that all else is as it was."""
    return random.Random(f"disks of {seed}").choice((0, 0, 300, 1_000)) * MILLISECOND


def draw_turns(seed: int) -> int:
    """How long processes collect messages; drawn apart, too."""
    return random.Random(f"turns of {seed}").choice((0, 0, 300, 3_000))


def draw_shell(rng: random.Random) -> Shell:
    """Disks, clocks, an arbiter or none."""
    return Shell(
        disk_us=rng.choice((0, 200, 2_000, 30_000)),
        load_us=rng.choice((0, 100, 3_000)) * MILLISECOND,
        wake_late_us=rng.choice((0, 2_000, 100_000)),
        clock_skew=rng.choice((0, 1_000, 20_000)),
        arbiter_us=rng.choice((None, None, 20_000, 300_000, 2_000_000)),
    )
