"""Mixes in which a fault shows soon, whatever a seed drew otherwise.

Of all that a seed may draw, a fault needs some things at once: a member that is cut off just while
the master changes, a frame that is lost just before its owner ends. Where that is rare, the seeds
in which the fault shows move with every change of the core. So such a fault brings a *mix*: the
seed draws as ever, and what matters is then set so that it happens often.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from holdfast.core.config import LEVEL_MAX
from holdfast.core.views import Kind
from holdfast.ids import Address, Millis
from holdfast.sim.network import NetworkOptions
from holdfast.sim.options import Options
from holdfast.sim.process import Site

MEMBERS: Final = 4
DELAY_US: Final = 10_000


def _sites(*, persistent: bool, lite: int = 0) -> tuple[Site, ...]:
    """Data members, each alone in its group, and as many lite ones behind them."""
    return tuple(
        Site(
            number=number,
            name=f"m{number:02}",
            address=Address(f"m{number:02}:5701"),
            group=f"g{number}",
            kind=Kind.DATA if number < MEMBERS else Kind.LITE,
            persistent=persistent,
            level_max=LEVEL_MAX,
        )
        for number in range(MEMBERS + lite)
    )


def _of(options: Options, *, backups: int, lite: int = 0) -> Options:
    """So many members, with files in every other seed, at the newest level."""
    sites = _sites(persistent=options.seed % 2 == 0, lite=lite)
    config = replace(
        options.config,
        initial=tuple(site.address for site in sites[:3]),
        replica_count=max(options.config.replica_count, 3),
        backup_count=backups,
        level=LEVEL_MAX,
        unnamed=replace(options.config.unnamed, backups=backups),
    )
    return replace(options, sites=sites, config=config)


def written_to(options: Options, *, backups: int = 1) -> Options:
    """Clients that never rest, and faults that are aimed at what they write."""
    options = _of(options, backups=backups)
    unnamed = replace(options.config.unnamed, journal_entries=4)
    return replace(
        options,
        config=replace(
            options.config, partition_count=4, unnamed=unnamed, sync_interval_ms=Millis(1_000)
        ),
        clients=6,
        client_think_ms=50,
        aim_gap_ms=700,
        fault_gap_ms=2_500,
        safety_ms=40_000,
    )


def starved(options: Options) -> Options:
    """The same with two backups that miss frames, and with owners that are followed at once."""
    options = written_to(options, backups=2)
    return replace(
        options,
        config=replace(options.config, backup_bytes_max=500, sync_interval_ms=Millis(30_000)),
        network=NetworkOptions(delay_us=DELAY_US, loss=0.02),
        shell=replace(options.shell, arbiter_us=20_000),
    )


def coming_back(options: Options) -> Options:
    """The same with files, and with ends that take what was not yet on a disk."""
    options = written_to(options)
    return replace(
        options,
        sites=_sites(persistent=True),
        shell=replace(options.shell, lazy_us=1_000_000),
        faults=(("crash", 3), ("blackout", 3), ("crash inside a step", 3)),
    )


def losing_power(options: Options) -> Options:
    """The same with slow disks, and nothing is called persisted before it is stable."""
    options = coming_back(options)
    return replace(options, shell=replace(options.shell, lazy_us=0, disk_us=30_000))


def moving(options: Options) -> Options:
    """Members that come and go under writes, and messages that come late, twice, or not at all."""
    options = _of(options, backups=2, lite=1)
    return replace(
        options,
        network=NetworkOptions(
            delay_us=DELAY_US, loss=0.02, tail=0.1, duplication=0.1, ordered=False
        ),
        clients=6,
        client_think_ms=50,
        faults=(("crash", 3), ("pause", 3), ("pause inside a step", 3), ("mute", 3)),
        fault_gap_ms=1_000,
        asks=(("join", 3), ("leave", 3), ("promote", 3), ("demote", 3)),
        ask_gap_ms=700,
        safety_ms=40_000,
        config=replace(options.config, rejoin_grace_ms=Millis(0)),
    )


def falling_apart(options: Options) -> Options:
    """Members that can't reach one another for a while, or sleep, and whose kind is changed."""
    options = _of(options, backups=1, lite=1)
    return replace(
        options,
        faults=(("split", 3), ("cut", 3), ("pause", 3), ("pause inside a step", 3)),
        fault_gap_ms=1_000,
        asks=(("promote", 3), ("demote", 3), ("join", 1), ("leave", 1)),
        ask_gap_ms=2_000,
        safety_ms=40_000,
    )
