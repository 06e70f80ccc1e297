"""Which partitions are written anew, and which files can go then."""

from __future__ import annotations

from holdfast.ids import PartitionId
from holdfast.storage import bases
from holdfast.storage.format.manifest import Base, ControlFiles, Manifest

P = [PartitionId(number) for number in range(6)]


def named(*segments: int, base: tuple[Base, ...] = ()) -> Manifest:
    ends = tuple(number * 10 for number in segments[:-1])
    return Manifest("m", 6, 3, 99, segments, ends, base)


def base(since: int, *partitions: int) -> Base:
    return Base(since, since, partitions, (1,) * len(partitions), 100)


def control(since: int) -> ControlFiles:
    return ControlFiles(since, since, False)


def test_a_round_is_due_when_the_log_is_longer_than_the_bases() -> None:
    assert not bases.is_due(99, 0, 100)
    assert bases.is_due(100, 0, 100)
    assert not bases.is_due(500, 501, 100)
    assert bases.is_due(501, 501, 100)


def test_a_round_has_every_partition_whose_log_counts() -> None:
    touched = {1: {P[0]: 5, P[3]: 5}, 2: {P[1]: 5}}
    manifest = named(1, 2, base=(base(2, 0, 1),))
    assert bases.round_of(manifest, touched) == (P[1], P[3])


def test_a_set_has_at_least_one_partition_and_about_so_many_bytes() -> None:
    wanted = (P[0], P[1], P[2])
    assert bases.next_set(wanted, {P[0]: 90}, 100) == wanted
    assert bases.next_set(wanted, {P[0]: 900, P[1]: 1}, 100) == (P[0],)
    assert bases.next_set(wanted, {P[0]: 50, P[1]: 50, P[2]: 1}, 100) == (P[0], P[1])


def test_sizes_are_those_of_the_base_and_of_the_log_since() -> None:
    sizes = bases.sizes_of(named(3, base=(base(3, 0, 1),)), {3: {P[1]: 7, P[2]: 9}})
    assert sizes == {P[0]: 50, P[1]: 57, P[2]: 9}


def test_segments_go_once_bases_have_all_of_them() -> None:
    touched = {1: {P[0]: 5, P[1]: 5}, 2: {P[1]: 5}, 3: {}}
    manifest = named(1, 2, 3)
    half = bases.with_base(manifest, base(3, 0), control(3), touched)
    assert half.segments == (1, 2, 3), "the first one has what no base has"
    whole = bases.with_base(half, base(3, 1), control(3), touched)
    assert (whole.segments, whole.sealed) == ((3,), ())


def test_a_segment_stays_as_long_as_the_control_files_begin_with_it() -> None:
    """It may have nothing but promises, which are in no base."""
    touched = {3: {P[0]: 1}, 4: {}, 5: {}}
    after = bases.with_base(named(3, 4, 5), base(4, 0), control(4), touched)
    assert (after.segments, after.sealed) == ((4, 5), (40,))


def test_only_the_oldest_go_so_that_nothing_is_missing_in_between() -> None:
    touched = {1: {P[0]: 1}, 2: {}, 3: {}}
    after = bases.with_base(named(1, 2, 3), base(3, 1), control(3), touched)
    assert after.segments == (1, 2, 3)


def test_a_new_base_takes_the_place_of_what_older_ones_have_of_it() -> None:
    manifest = named(7, base=(base(3, 0, 1), base(4, 2)))
    after = bases.with_base(manifest, base(7, 1, 2), control(7), {})
    assert [each.partitions for each in after.bases] == [(0,), (1, 2)]
    assert bases.since_of(after) == {P[0]: 3, P[1]: 7, P[2]: 7}
