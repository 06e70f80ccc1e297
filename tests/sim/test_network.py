"""The network does what its options and the faults say, and nothing else."""

from __future__ import annotations

import random

from holdfast.sim.network import CLEAN, Network, NetworkOptions, split

MANY = 4_000


def network(**options: float) -> Network:
    return Network(random.Random(1), NetworkOptions(**options))  # type: ignore[arg-type]


def arrivals(net: Network, count: int = MANY) -> list[tuple[int, ...]]:
    return [tuple(net.route(0, 1, "Grant", now)) for now in range(0, count * 10, 10)]


def test_a_clean_network_carries_everything_in_order() -> None:
    all_arrivals = arrivals(Network(random.Random(1), CLEAN))
    assert all(len(one) == 1 for one in all_arrivals)
    times = [one[0] for one in all_arrivals]
    assert times == sorted(times)


def test_nothing_arrives_before_it_is_sent() -> None:
    net = network(delay_us=1, tail=0.5, ordered=False)
    assert all(net.route(0, 1, "Grant", 100)[0] > 100 for _ in range(MANY))


def test_loss() -> None:
    lost = sum(not one for one in arrivals(network(loss=0.1)))
    assert 0.07 * MANY < lost < 0.13 * MANY


def test_duplication() -> None:
    twice = sum(len(one) == 2 for one in arrivals(network(duplication=0.1)))
    assert 0.07 * MANY < twice < 0.13 * MANY


def test_reordering() -> None:
    times = [one[0] for one in arrivals(network(ordered=False))]
    assert times != sorted(times)


def test_damage_flips_one_bit() -> None:
    net = network(damage=0.5)
    frames = [net.damaged(bytes(8)) for _ in range(MANY)]
    damaged = [frame for frame in frames if frame is not None]
    assert 0.45 * MANY < len(damaged) < 0.55 * MANY
    assert all(int.from_bytes(frame).bit_count() == 1 for frame in damaged)


def test_a_cut_works_one_way_and_ends_when_all_that_cut_have_healed() -> None:
    net = network()
    net.cut([(0, 1)])
    net.cut([(0, 1), (2, 1)])
    assert net.is_cut(0, 1)
    assert not net.route(0, 1, "Grant", 0)
    assert net.route(1, 0, "Grant", 0)
    net.heal([(0, 1)])
    assert not net.route(0, 1, "Grant", 0)
    net.heal([(0, 1), (2, 1)])
    assert net.route(0, 1, "Grant", 0)


def test_a_muted_kind_is_lost_everywhere() -> None:
    net = network()
    net.mute("Grant")
    assert not net.route(0, 1, "Grant", 0)
    assert net.route(0, 1, "Claim", 0)
    net.unmute("Grant")
    assert net.route(0, 1, "Grant", 0)


def test_a_slow_site_is_slow_in_both_directions() -> None:
    net = network(ordered=False)
    net.slow(1)
    assert max(net.route(0, 1, "Grant", 0)[0] for _ in range(100)) > 5_000
    assert max(net.route(1, 0, "Grant", 0)[0] for _ in range(100)) > 5_000
    net.hasten(1)
    assert max(net.route(1, 0, "Grant", 0)[0] for _ in range(100)) < 1_000


def test_a_mended_network_is_clean() -> None:
    net = network(loss=1.0)
    net.cut([(0, 1)])
    net.slow(1)
    net.mute("Grant")
    net.mend()
    assert net.route(0, 1, "Grant", 0)[0] < 1_000


def test_a_split_cuts_every_link_between_groups_both_ways() -> None:
    assert set(split([[0, 1], [2]])) == {(0, 2), (1, 2), (2, 0), (2, 1)}


def test_a_starved_site_loses_a_share_of_one_kind() -> None:
    net = network()
    net.starve("Grant", 1, 0.65)
    lost = sum(not one for one in arrivals(net))
    assert 0.6 * MANY < lost < 0.7 * MANY
    assert net.route(0, 1, "Claim", 0)
    assert net.route(0, 2, "Grant", 0)
    net.feed("Grant", 1)
    assert all(arrivals(net))
    net.starve("Grant", 1, 1.0)
    assert not net.route(0, 1, "Grant", 0)
    net.mend()
    assert net.route(0, 1, "Grant", 0)
