"""How commands come to their values."""

from __future__ import annotations

import pytest

from holdfast.core.stores.access import check_lock, container_for, container_of, live, present
from holdfast.core.stores.command import LOCKED, TOO_LARGE, WRONG_TYPE
from holdfast.core.stores.containers import CONTAINER_BYTES_MAX, HashValue, ListValue, SetValue
from holdfast.core.stores.settings import NameSettings
from holdfast.errors import CommandError
from tests.core.stores.replicas import NOW, Replicas


def test_container_that_has_expired_is_gone_for_everybody() -> None:
    replicas = Replicas(lambda _: NameSettings(ttl_ms=10))
    replicas.run("SADD", "s", "a")
    replicas.run("RPUSH", "l", "a")
    replicas.run("HSET", "h", "f", "1")
    replicas.check()
    replicas.now = NOW + 9
    assert [replicas.run(*words) for words in (("SCARD", "s"), ("LLEN", "l"), ("HLEN", "h"))] == [
        1,
        1,
        1,
    ]
    replicas.now = NOW + 10
    assert replicas.run("SCARD", "s") == 0
    assert replicas.run("RPUSH", "l", "b") == 1
    assert replicas.run("HGET", "h", "f") is None
    replicas.check()
    assert replicas.backup.find(b"s") is None


def test_nothing_goes_while_writes_are_held_back() -> None:
    replicas = Replicas(lambda _: NameSettings(ttl_ms=10))
    replicas.run("SADD", "s", "a")
    replicas.ship()
    replicas.now = NOW + 10
    replicas.may_write = False
    assert replicas.run("SCARD", "s") == 0
    assert present(replicas.owner, replicas.call(), b"s") is None
    assert not replicas.owner.named(b"default").pending
    assert replicas.owner.find(b"s") is not None


def test_container_of_another_kind_is_refused() -> None:
    replicas = Replicas()
    replicas.run("SADD", "s", "a")
    space, call = replicas.owner, replicas.call()
    assert container_of(space, call, b"none", SetValue) is None
    found = container_of(space, call, b"s", SetValue)
    assert found is not None
    assert found[1].members == {b"a": None}
    with pytest.raises(CommandError, match=WRONG_TYPE):
        container_of(space, call, b"s", HashValue)


def test_new_container_has_the_life_of_its_name_and_is_here_with_its_first_change() -> None:
    settings = {b"cache": NameSettings(ttl_ms=10, idle_ms=5), b"queue": NameSettings(ttl_ms=20)}
    replicas = Replicas(lambda name: settings.get(name, NameSettings()))
    space, call = replicas.owner, replicas.call()
    cases: list[tuple[bytes, type[SetValue | ListValue | HashValue], int]]
    cases = [(b"cache:1", SetValue, 10), (b"queue:1", ListValue, 20), (b"users:1", HashValue, 0)]
    for key, kind, life in cases:
        fragment, held = container_for(space, call, key, kind, [])
        assert held.expiry == (NOW + life if life else 0)
        assert (fragment is space.internal) == (kind is ListValue)
        assert space.find(key) is None
    assert space.named(b"cache").touched == {b"cache:1": NOW}
    assert space.named(b"users").touched == {}


@pytest.mark.parametrize("words", ["SADD k {}", "HSET k f {}", "LPUSH k {}", "HINCRBY k {} 1"])
def test_container_has_a_limit(words: str) -> None:
    replicas = Replicas()
    name, *others = words.split()
    item = bytes(CONTAINER_BYTES_MAX)
    reply = replicas.run(name, *(item if word == "{}" else word for word in others))
    assert reply == TOO_LARGE
    assert replicas.owner.find(b"k") is None
    assert not any(fragment.pending for fragment in replicas.owner)


def test_key_of_a_container_has_a_limit_and_a_name_has_as_well() -> None:
    replicas = Replicas(lambda _: NameSettings(entries_max=1))
    assert str(replicas.run("SADD", bytes(65537), "a")).startswith("ERR the key has more than")
    assert replicas.run("SADD", "a", "1") == 1
    assert str(replicas.run("SADD", "b", "1")).startswith("OOM")
    assert replicas.run("SADD", "a", "2") == 1, "no new key"


def test_use_is_noted_where_it_is_wanted() -> None:
    replicas = Replicas(lambda _: NameSettings(idle_ms=10))
    replicas.run("SADD", "s", "a")
    fragment = replicas.owner.named(b"default")
    for after in (5, 10):
        replicas.now = NOW + after
        assert live(replicas.owner, replicas.call(), b"s") is not None
        assert fragment.touched == {b"s": NOW + after}
    replicas.now = NOW + 15
    assert present(replicas.owner, replicas.call(), b"s") is not None
    assert fragment.touched == {b"s": NOW + 10}, "a look is no use"
    replicas.now = NOW + 20
    assert live(replicas.owner, replicas.call(), b"s") is None


def test_lock_refuses_others_until_its_time_is_over() -> None:
    replicas = Replicas(session=b"one")
    check_lock(replicas.owner, replicas.call(), b"k")
    replicas.run("HOLDFAST.LOCK", "k", 10)
    check_lock(replicas.owner, replicas.call(), b"k")
    replicas.session = b"two"
    check_lock(replicas.owner, replicas.call(), b"other")
    with pytest.raises(CommandError, match=LOCKED):
        check_lock(replicas.owner, replicas.call(), b"k")
    replicas.now = NOW + 10
    check_lock(replicas.owner, replicas.call(), b"k")
