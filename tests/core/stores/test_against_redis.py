"""Every command against a real Redis: the same calls, the same bytes.

What Redis leaves open is compared as such: members of a set, fields of a hash and keys in any
order, what is drawn at random by its kind and as a part of the whole. Numbers that follow from the
clock may differ by what the test itself takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import pytest

from holdfast.core.stores.catalogue import ALL
from holdfast.core.stores.command import Command, Trait
from holdfast.core.stores.replies import RESP2, RESP3, Resp2
from tests.core.stores.partition import Partition
from tests.core.stores.redis_calls import GRAMMAR, call
from tests.core.stores.redis_peer import RedisPeer, Reply, parse, redis_server, why_not

CALLS: Final = 6_000
SEEDS: Final = (1, 2)
KEYS: Final = (b"a", b"b", b"users:1", b"users:2", b"x:{y}", b":odd")
WHOLE: Final = {
    b"set": [b"SMEMBERS"],
    b"hash": [b"HGETALL"],
    b"list": [b"LRANGE", b"0", b"-1"],
    b"string": [b"GET"],
}

ANY_ORDER: Final = ("SMEMBERS", "SINTER", "SUNION", "SDIFF", "KEYS", "HKEYS", "HVALS")
SCANS: Final = ("SCAN", "SSCAN", "HSCAN")
DRAWN: Final = ("SPOP", "SRANDMEMBER", "HRANDFIELD", "RANDOMKEY")
COMPARED: Final = frozenset((b"GT", b"LT"))
"""Options that compare an expiry with the one that is there."""
CLOCK: Final = {"TTL": 2, "PTTL": 2_000, "EXPIRETIME": 2, "PEXPIRETIME": 2_000}
"""How far replies may be apart: the test may be interrupted between the two."""

REASON: Final = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """The socket of a server for this module."""
    with redis_server() as found:
        yield found


def test_every_command_that_redis_knows_is_compared(place: Path) -> None:
    names = [each.name for each in ALL.all()]
    with closing(RedisPeer(place, 2)) as peer:
        _, found = parse(peer.call([b"COMMAND", b"INFO", *(name.encode() for name in names)]))
    assert isinstance(found, list)
    known = [name for name, (_, what) in zip(names, found, strict=True) if what is not None]
    assert sorted(known) == sorted(GRAMMAR)
    assert all(name.startswith("HOLDFAST.") for name in set(names) - set(known))


@pytest.mark.parametrize(
    "command", [each for each in ALL.all() if each.name in GRAMMAR], ids=lambda each: each.name
)
def test_commands_are_described_as_redis_describes_them(place: Path, command: Command) -> None:
    with closing(RedisPeer(place, 2)) as peer:
        _, described = parse(peer.call([b"COMMAND", b"INFO", command.name.encode()]))
    assert isinstance(described, list)
    theirs = described[0][1]
    assert isinstance(theirs, list)
    assert [theirs[at][1] for at in (1, 3, 4, 5)] == [
        b"%d" % number for number in (command.arity, *command.keys)
    ]
    flags = theirs[2][1]
    assert isinstance(flags, list)
    for trait, flag in (
        (Trait.WRITE, b"write"),
        (Trait.READ, b"readonly"),
        (Trait.GROWS, b"denyoom"),
    ):
        assert (trait in command.traits) == ((b"+", flag) in flags), flag


@pytest.mark.parametrize("dialect", [RESP2, RESP3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("seed", SEEDS)
def test_replies_are_those_of_redis(place: Path, seed: int, dialect: Resp2) -> None:
    random = Random(seed * 10 + dialect.number)
    partition = Partition(dialect=dialect)
    with closing(RedisPeer(place, dialect.number)) as peer:
        peer.call([b"FLUSHDB"])
        for number in range(CALLS):
            compare(peer, partition, call(random))
            if number % 100 == 0:
                compare_everything(peer, partition)
    partition.check()


def test_fractions_are_added_digit_by_digit_as_redis_adds_them(place: Path) -> None:
    random, partition = Random(5), Partition()
    with closing(RedisPeer(place, 2)) as peer:
        peer.call([b"DEL", b"n"])
        for _ in range(CALLS // 2):
            digits = b"%.*f" % (
                random.randint(0, 20),
                random.uniform(-1, 1) * 10 ** random.randint(0, 25),
            )
            power = b"e%d" % random.choice((0, 0, 1, -3, 30, -30, 300, -4900, 4800))
            compare(peer, partition, [b"INCRBYFLOAT", b"n", digits + power])
            if random.random() < 0.2:
                compare(peer, partition, [b"DEL", b"n"])


@pytest.mark.parametrize("dialect", [RESP2, RESP3], ids=["resp2", "resp3"])
@pytest.mark.parametrize(
    "args",
    [
        [b"COMMAND", b"COUNT", b"x"],
        [b"COMMAND", b"Nope\r\n"],
        [b"COMMAND", b"\xff" * 200],
        [b"COMMAND", b"getkeys"],
        [b"COMMAND", b"GETKEYS", b"get"],
        [b"COMMAND", b"GETKEYS", b"nope", b"a"],
        [b"COMMAND", b"GETKEYS", b"dbsize", b"a"],
        [b"COMMAND", b"GETKEYS", b"mset", b"a"],
        [b"COMMAND", b"GETKEYS", b"mset", b"a", b"1", b"b", b"2"],
        [b"COMMAND", b"GETKEYS", b"lmove", b"a", b"b", b"LEFT", b"LEFT"],
        [b"COMMAND", b"GETKEYS", b"blpop", b"a", b"b", b"0"],
        [b"COMMAND", b"INFO", b"nope"],
        [b"COMMAND", b"DOCS", b"nope"],
    ],
    ids=repr,
)
def test_questions_about_commands_are_answered_as_by_redis(
    place: Path, args: list[bytes], dialect: Resp2
) -> None:
    with closing(RedisPeer(place, dialect.number)) as peer:
        assert Partition(dialect=dialect).answer(args) == peer.call(args)


def compare_everything(peer: RedisPeer, partition: Partition) -> None:
    """Whatever a call may have left behind that its reply did not tell."""
    for key in KEYS:
        compare(peer, partition, [b"PEXPIRETIME", key])
        compare(peer, partition, [b"TYPE", key])
        kind = peer.call([b"TYPE", key])[1:-2]
        if kind != b"none":
            name, *rest = WHOLE[kind]
            compare(peer, partition, [name, key, *rest])


def now_ms() -> int:
    """Milliseconds of the wall clock."""
    return time.time_ns() // 1_000_000


def await_a_tick() -> None:
    """Until this millisecond is over, and the next one."""
    begun = now_ms()
    while now_ms() < begun + 2:
        pass


def compare(peer: RedisPeer, partition: Partition, args: list[bytes]) -> None:
    """One call on both."""
    name = args[0].decode(errors="replace").upper()
    whole = everything(peer, args) if name in DRAWN else []
    if name == "DBSIZE":
        peer.call([b"EXISTS", *KEYS])  # Redis counts what has expired until it is looked for
    if not COMPARED.isdisjoint(map(bytes.upper, args)):
        await_a_tick()  # or else what is later by no millisecond here may be so by one there
    partition.now = now_ms()
    theirs, ours = peer.call(args), partition.answer(args)
    if theirs == ours:
        return
    their, our = parse(theirs), parse(ours)
    assert ours[:1] != b"-", (args, theirs, ours)
    if name in CLOCK:
        assert abs(number_of(their) - number_of(our)) <= CLOCK[name], (args, theirs, ours)
    elif name in SCANS:
        assert their[0] == our[0], (args, theirs, ours)
        assert scanned(peer.call, args, their) == scanned(partition.answer, args, our), args
    elif name in DRAWN:
        assert shape(their) == shape(our), (args, theirs, ours)
        assert all(leaf in whole for leaf in leaves(our)), (args, ours)
    else:
        assert ordered(name, their) == ordered(name, our), (args, theirs, ours)
    if name == "SPOP":  # they may have taken different ones
        assert peer.call([b"DEL", args[1]]) == partition.answer([b"DEL", args[1]])


def scanned(ask: Callable[[list[bytes]], bytes], args: list[bytes], reply: Reply) -> list[object]:
    """All elements of a scan that began with this reply, each once."""
    name, at = args[0].upper(), 1 if args[0].upper() == b"SCAN" else 2
    found: list[object] = []
    while True:
        _, what = reply
        assert isinstance(what, list)
        (_, cursor), (_, elements) = what
        assert isinstance(elements, list)
        if name == b"HSCAN":
            found += zip(elements[::2], elements[1::2], strict=True)
        else:
            found += elements
        if cursor == b"0":
            return sorted(set(found), key=repr)
        assert isinstance(cursor, bytes)
        reply = parse(ask([*args[:at], cursor, *args[at + 1 :]]))


def everything(peer: RedisPeer, args: list[bytes]) -> list[bytes]:
    """All that may be drawn."""
    ask = {b"H": b"HGETALL", b"S": b"SMEMBERS"}.get(args[0][:1].upper())
    return leaves(parse(peer.call([b"KEYS", b"*"] if ask is None else [ask, *args[1:2]])))


def number_of(reply: Reply) -> int:
    """An integer."""
    kind, text = reply
    assert kind == b":"
    assert isinstance(text, bytes)
    return int(text)


def leaves(reply: Reply) -> list[bytes]:
    """All byte strings in it."""
    _, what = reply
    if isinstance(what, list):
        return [leaf for each in what for leaf in leaves(each)]
    return [] if what is None else [what]


def shape(reply: Reply) -> object:
    """What it is, without what it says."""
    kind, what = reply
    return (kind, [shape(each) for each in what]) if isinstance(what, list) else kind


def ordered(name: str, reply: Reply) -> Reply:
    """The same, in an order of its own, where Redis has none."""
    kind, what = reply
    if not isinstance(what, list):
        return reply
    if name in ANY_ORDER:
        return kind, sorted(what)
    if name == "HGETALL":
        return kind, [
            part for pair in sorted(zip(what[::2], what[1::2], strict=True)) for part in pair
        ]
    return reply
