"""A snapshot gives what was there when it was taken, whatever happens meanwhile."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.containers import Change, HashValue
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.record import body_of
from holdfast.core.stores.settings import NameSettings
from holdfast.core.stores.snapshot import Snapshot
from tests.core.stores.fragments import STEPS, Step, change, perform

FAR = 1 << 40
"""No step's expiry is later."""


def fragment(**settings: int) -> Fragment:
    return Fragment(b"users", replace(NameSettings(), **settings), 3)  # type: ignore[arg-type]


def everything(snapshot: Snapshot, size: int = 1 << 20, count: int = 100) -> dict[bytes, bytes]:
    """All pages; no key comes twice."""
    found: list[tuple[bytes, bytes]] = []
    at, pages = 0, 0
    while pages == 0 or at:
        records, at = snapshot.page(at, size, count)
        found += records
        pages += 1
    assert len(dict(found)) == len(found)
    return dict(found)


@given(STEPS, STEPS, st.lists(STEPS, max_size=3), st.integers(1, 40), st.integers(1, 4))
def test_what_happens_meanwhile_is_not_seen(
    before: list[Step], after: list[Step], between: list[list[Step]], size: int, count: int
) -> None:
    """Also not by one of two snapshots that were taken at different moments."""
    live = fragment()
    for step in before:
        perform(live, step)
    first = Snapshot(live, 0)
    expected = {key: live.record_of(key) for key in live.records}
    for step in after:
        perform(live, step)
    second = Snapshot(live, 0)
    expected_later = {key: live.record_of(key) for key in live.records}
    found: list[tuple[bytes, bytes]] = []
    records, at = first.page(0, size, count)
    found += records
    for steps in between:
        for step in steps:
            perform(live, step)
        if at:
            records, at = first.page(at, size, count)
            found += records
    while at:
        records, at = first.page(at, size, count)
        found += records
    assert dict(found) == expected
    assert everything(second) == expected_later


@given(STEPS, STEPS)
def test_a_backup_that_applies_is_the_same(before: list[Step], after: list[Step]) -> None:
    """A partition that was handed over goes on as a backup, and its snapshots with it."""
    owner, backup = fragment(), fragment()
    for step in before:
        perform(owner, step)
    for key, record in owner.take():
        backup.apply(key, record)
    snapshot = Snapshot(backup, 0)
    expected = {key: backup.record_of(key) for key in backup.records}
    for step in after:
        perform(owner, step)
    for key, record in owner.take():
        backup.apply(key, record)
    assert everything(snapshot) == expected


def test_pages_end_with_the_last_record_and_are_bounded() -> None:
    live = fragment()
    for number in range(10):
        live.put(b"%d" % number, b"x" * 100)
    snapshot = Snapshot(live, 0)
    assert (snapshot.epoch, snapshot.counter, len(snapshot)) == (3, 10, 10)
    assert [len(snapshot.page(0, 1, 10).records), snapshot.page(0, 1, 10).following] == [1, 1]
    assert [
        len(snapshot.page(8, 1 << 20, 10).records),
        snapshot.page(8, 1 << 20, 10).following,
    ] == [
        2,
        0,
    ]
    assert len(snapshot.page(2, 1 << 20, 3).records) == 3


def test_what_had_expired_is_not_in_it() -> None:
    live = fragment()
    live.put(b"dead", b"v", 100)
    live.put(b"dies", b"v", 101)
    change(live, b"set", HashValue, Change.SET, b"f", b"v")
    change(live, b"set", HashValue, Change.EXPIRE, (100).to_bytes(8, "big"))
    assert set(everything(Snapshot(live, 100))) == {b"dies"}


def test_what_nobody_used_is_not_in_it_and_looking_uses_nothing() -> None:
    live = fragment(idle_ms=50)
    for key in (b"used", b"idle", b"unknown"):
        live.put(key, key)
    live.touched = {b"used": 60, b"idle": 50}
    assert set(everything(Snapshot(live, 100))) == {b"used", b"unknown"}
    assert live.touched == {b"used": 60, b"idle": 50}


def test_only_what_is_asked_for() -> None:
    live = fragment()
    for key in (b"a:1", b"b:1"):
        live.put(key, key)
    found = everything(Snapshot(live, 0, lambda key: key.startswith(b"b")))
    assert {key: body_of(record) for key, record in found.items()} == {b"b:1": b"b:1"}


def test_closed_it_holds_nothing_and_is_told_nothing() -> None:
    live = fragment()
    live.put(b"k", b"v")
    snapshot = Snapshot(live, 0)
    snapshot.close()
    snapshot.close()
    assert everything(snapshot) == {}
    assert live.snapshots == []
