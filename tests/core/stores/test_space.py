"""Where keys live in a partition."""

from __future__ import annotations

import pytest

from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.settings import Eviction, NameSettings
from holdfast.core.stores.space import DEFAULT, INTERNAL, NAMES_MAX, Space, name_of
from tests.core.stores.replicas import Replicas, contents, plain


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (b"users:42", b"users"),
        (b"users:42:7", b"users"),
        (b"users", DEFAULT),
        (b"", DEFAULT),
        (b":42", DEFAULT),
        (b"{a:b}", b"{a"),
    ],
)
def test_name_is_what_stands_before_the_first_colon(key: bytes, name: bytes) -> None:
    assert name_of(key) == name
    space = Space(plain, 1)
    assert space.look(key) is None
    assert space.home(key).name == name
    assert space.look(key) is space.home(key)


def test_key_is_found_in_its_name_or_among_lists() -> None:
    replicas = Replicas()
    replicas.run("SADD", "users:1", "a")
    replicas.run("RPUSH", "users:2", "a")
    found = {key: replicas.owner.find(key) for key in (b"users:1", b"users:2", b"users:3")}
    where = {key: each[0].name for key, each in found.items() if each is not None}
    assert where == {b"users:1": b"users", b"users:2": INTERNAL}


def fill(space: Space, count: int) -> None:
    """A key in each of so many names."""
    for index in range(count):
        key = b"name%d:1" % index
        space.home(key).put(key, b"v")


def test_names_beyond_the_limit_share_a_fragment_and_stay_there() -> None:
    space = Space(plain, 1)
    fill(space, NAMES_MAX + 5)
    assert len(space.fragments) == NAMES_MAX + 2, "the names, the default, the internal one"
    assert space.crowded
    assert len(space.fragments[DEFAULT]) == 5
    assert space.home(b"name1:2").name == b"name1"
    assert space.home(b"another:1").name == DEFAULT
    for index in range(NAMES_MAX + 5):
        assert space.find(b"name%d:1" % index) is not None


def test_backup_that_becomes_the_owner_finds_the_keys_of_all_names() -> None:
    """It was told fragments, not that one of them is crowded."""
    owner, backup = Space(plain, 1), Space(plain, 0)
    fill(owner, NAMES_MAX + 5)
    for fragment in owner:
        for key, record in fragment.take():
            backup.named(fragment.name).apply(key, record)
    backup.reign(2)
    assert contents(backup) == contents(owner)
    assert backup.crowded
    for index in range(NAMES_MAX + 5):
        assert backup.find(b"name%d:1" % index) is not None
    default = backup.fragments[DEFAULT]
    for key in list(default.records):
        default.remove(key)
    backup.reign(3)
    assert not backup.crowded, "nothing foreign is left, so new names may begin"


def test_lock_of_a_foreign_name_makes_a_fragment_crowded_as_well() -> None:
    space = Space(plain, 1)
    space.named(DEFAULT).lock(b"foreign:1", 1, b"session", 5)
    space.reign(2)
    assert space.crowded


def test_reign_is_that_of_all_fragments_and_of_later_ones() -> None:
    space = Space(plain, 1)
    space.home(b"a:1").put(b"a:1", b"v")
    space.reign(7)
    space.home(b"b:1").put(b"b:1", b"v")
    space.internal.lock(b"l", 1, b"", 5)
    assert [fragment.epoch for fragment in space] == [7, 7, 7]
    assert space.home(b"b:1").version_of(b"b:1")[:4] == (7).to_bytes(4, "big")


def test_settings_of_a_name_are_its_fragments() -> None:
    settings = {b"cache": NameSettings(ttl_ms=5, idle_ms=6), INTERNAL: NameSettings(idle_ms=6)}
    space = Space(lambda name: settings.get(name, NameSettings()), 1)
    assert space.home(b"cache:1").settings.ttl_ms == 5
    assert isinstance(space.internal, Fragment)


def test_idle_time_limits_and_eviction_are_not_for_lists() -> None:
    asked = NameSettings(backups=2, idle_ms=5, entries_max=1, eviction=Eviction.LRU)
    internal = Space(lambda _: asked, 1).internal
    assert internal.settings == NameSettings(backups=2)
    replicas = Replicas(lambda _: asked)
    for key in ("a", "b", "c"):
        replicas.run("RPUSH", key, "x")
    replicas.now += 100
    assert [replicas.run("LLEN", key) for key in ("a", "b", "c")] == [1, 1, 1]


def test_fragment_that_is_forgotten_is_here_no_more() -> None:
    space = Space(plain, 1)
    fill(space, NAMES_MAX + 5)
    space.forget(b"name1")
    space.forget(b"unknown")
    assert space.find(b"name1:1") is None
    assert space.crowded, "foreign keys are still in the default one"
    space.forget(DEFAULT)
    assert space.find(b"name%d:1" % (NAMES_MAX + 1)) is None


def test_internal_fragment_is_forgotten_by_emptying_it() -> None:
    replicas = Replicas()
    replicas.run("RPUSH", "l", "a")
    internal = replicas.owner.internal
    replicas.owner.forget(INTERNAL)
    assert replicas.owner.internal is internal
    assert (internal.records, internal.pending) == ({}, [])
