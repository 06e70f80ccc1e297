"""What is not about keys, against a real Redis: the same words, the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.core.front.clients import Client, alone
from tests.core.stores.redis_peer import RedisPeer, parse, redis_server, why_not

REASON: Final = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

CONNECTION: Final = """
HELLO 4|HELLO abc|HELLO 2 FOO|HELLO 2 AUTH a|HELLO 2 AUTH foo x|HELLO 2 SETNAME
HELLO 2 AUTH default x SETNAME \x01|AUTH x|AUTH default x|AUTH foo bar|AUTH a b c|AUTH
PING|PING a|PING a b|ECHO x|ECHO|SELECT 0|SELECT 99|SELECT x|SELECT -1
CLIENT GETNAME|CLIENT SETNAME me|CLIENT GETNAME
CLIENT SETNAME \xff|CLIENT SETNAME|CLIENT SETNAME a b
CLIENT LIST TYPE foo|CLIENT LIST TYPE pubsub|CLIENT LIST ID 99|CLIENT LIST ID x|CLIENT LIST foo
CLIENT NO-EVICT on|CLIENT NO-EVICT foo|CLIENT NO-EVICT|CLIENT FOO|CLIENT|CLIENT ID x
CONFIG GET save|CONFIG GET save appendonly|CONFIG GET|CONFIG FOO|CONFIG GET nothing|CONFIG
CLUSTER FOO|CLUSTER|CLUSTER KEYSLOT|INFO nothing|FOO|foo bar|RESET|CLIENT GETNAME|RESET x|QUIT x
"""


TRANSACTIONS: Final = """
EXEC|DISCARD|MULTI|MULTI|EXEC|MULTI|WATCH k|EXEC|MULTI|EXEC x|EXEC|MULTI|DISCARD x|EXEC|EXEC x
MULTI|WATCH|EXEC|MULTI|CLIENT FOO|EXEC|MULTI|CLIENT SETNAME|EXEC|MULTI|RESET x|EXEC|MULTI|FOO|EXEC
MULTI|GET|PING|EXEC|MULTI|AUTH a b|PING|EXEC|MULTI|SET k 1|INCR k|LPUSH k 1|BLPOP {k}list 0|ECHO x
GET k|EXEC|WATCH|WATCH k|SET k 2|MULTI|GET k|EXEC|WATCH k|UNWATCH|SET k 3|MULTI|GET k|EXEC|UNWATCH
MULTI|UNWATCH|DISCARD|MULTI|SET k 4|DISCARD|GET k|MULTI|EXEC|WATCH k|GET k|MULTI|TYPE k|EXEC
WATCH {k}no|MULTI|EXISTS {k}no|EXEC|MULTI|PING a b|CLIENT GETNAME|SELECT 99|EXEC|DEL k|MULTI|RESET
EXEC|DBSIZE|KEYS *|RANDOMKEY|SCAN 0|SET {a}1 x|DBSIZE|KEYS *|RANDOMKEY|SCAN x|SCAN 0 COUNT 0|KEYS
FLUSHDB now|FLUSHALL a b|FLUSHDB async|DBSIZE|SET {a}1 x|FLUSHALL SYNC|DBSIZE|SCAN|RANDOMKEY x
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """The socket of a server for this module."""
    with redis_server() as found:
        yield found


def words_of(text: str) -> list[list[bytes]]:
    """Calls, one by one."""
    return [call.encode("latin1").split() for line in text.split("\n") for call in line.split("|")]


@pytest.mark.parametrize("dialect", [2, 3])
def test_connection_commands_are_answered_as_by_redis(place: Path, dialect: int) -> None:
    client = Client(alone(), plain=True)
    client.call("HELLO", dialect)
    with closing(RedisPeer(place, dialect)) as peer:
        for words in filter(None, words_of(CONNECTION)):
            theirs, ours = peer.call(words), client.call(*words)
            if words[:2] == [b"CONFIG", b"GET"]:
                assert sorted(ours.split()) == sorted(theirs.split())
            else:
                assert ours == theirs, words


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("dialect", [2, 3])
def test_transactions_and_keyspace_are_those_of_redis(
    place: Path, dialect: int, plain: bool
) -> None:
    client = Client(alone(), plain=plain)
    client.call("HELLO", dialect)
    with closing(RedisPeer(place, dialect)) as peer:
        peer.call([b"FLUSHALL"])
        for words in filter(None, words_of(TRANSACTIONS)):
            assert client.call(*words) == peer.call(words), words
            if words == [b"RESET"]:
                client.call("HELLO", dialect)
                peer.call([b"HELLO", b"%d" % dialect])


@pytest.mark.parametrize("dialect", [2, 3])
def test_greeting_is_that_of_redis(place: Path, dialect: int) -> None:
    client = Client(alone(), plain=True, number=7)
    with closing(RedisPeer(place, 2)) as peer:
        theirs, ours = parse(peer.call([b"HELLO", b"%d" % dialect])), None
        ours = parse(client.call("HELLO", dialect))
    assert ours[0] == theirs[0]
    assert isinstance(ours[1], list)
    assert isinstance(theirs[1], list)
    differing = [
        at
        for at, pair in enumerate(zip(ours[1], theirs[1], strict=True))
        if len(set(map(repr, pair))) > 1
    ]
    names = [ours[1][at - 1][1] for at in differing]
    assert set(names) <= {b"version", b"id"}, "which version, and which connection it is"


def test_help_ends_as_in_redis(place: Path) -> None:
    client = Client(alone())
    with closing(RedisPeer(place, 2)) as peer:
        for name in ("CLIENT", "CONFIG"):
            theirs, ours = (
                parse(peer.call([name.encode(), b"HELP"])),
                parse(client.call(name, "HELP")),
            )
            assert isinstance(ours[1], list)
            assert isinstance(theirs[1], list)
            assert ours[1][0] == theirs[1][0]
            assert ours[1][-2:] == theirs[1][-2:]
            assert all(line[0] == b"+" for line in ours[1])
