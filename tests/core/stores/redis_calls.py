"""Calls of every command that Redis knows too: few keys, all options, valid and not.

A word of a grammar is a function from chance to arguments; `GRAMMAR` has the words that come after
a command's name. No call depends on how fast a machine is: what expires does so long after the
test, or long ago.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

Word = Callable[[Random], list[bytes]]
Words = tuple[Word, ...]

FAR_S: Final = 100_000
NOW_S: Final = 4_000_000_000
"""A moment of the wall clock that is far away: in the year 2096."""


def one(*choices: bytes) -> Word:
    """One of these."""
    return lambda random: [random.choice(choices)]


def often(common: Word, rare: Word) -> Word:
    """Mostly the one, sometimes the other."""
    return lambda random: (common if random.random() < 0.85 else rare)(random)


def maybe(*words: Word) -> Word:
    """All of these, or nothing."""
    return lambda random: joined(words, random) if random.random() < 0.5 else []


def some(*words: Word) -> Word:
    """These, one to four times."""

    def word(random: Random) -> list[bytes]:
        return [arg for _ in range(random.randint(1, 4)) for arg in joined(words, random)]

    return word


def any_of(*options: Words) -> Word:
    """None to three of these options, each with its words, in any order."""

    def word(random: Random) -> list[bytes]:
        chosen = [random.choice(options) for _ in range(random.choice((0, 1, 1, 2, 3)))]
        return [arg for words in chosen for arg in joined(words, random)]

    return word


def said(word: bytes, *rest: Word) -> Words:
    """An option by its name, in any case."""
    return (one(word, word.lower()), *rest)


def joined(words: Words, random: Random) -> list[bytes]:
    """The arguments of these words, one after the other."""
    return [arg for word in words for arg in word(random)]


KEY = one(b"a", b"b", b"users:1", b"users:2", b"x:{y}", b":odd")
TEXT = one(b"", b"x", b"hello world", b"10", b"-3", b"3.5", b"\xff\0\r\n", b"abc")
MEMBER = one(b"", b"a", b"b", b"c", b"1", b"-2", b"\xff\r\n", b"d" * 70)
NOT_A_NUMBER = one(
    b"", b"abc", b"1.5", b" 1", b"+1", b"01", b"9223372036854775808", b"99999999999999999999"
)
SMALL = often(one(b"0", b"1", b"2", b"3", b"5", b"-1", b"-2", b"-3"), NOT_A_NUMBER)
NUMBER = often(
    one(b"0", b"1", b"7", b"-5", b"100", b"9223372036854775807", b"-9223372036854775808"),
    NOT_A_NUMBER,
)
PLACE = often(one(b"0", b"1", b"3", b"20", b"-1"), NOT_A_NUMBER)
FRACTION = often(
    one(b"0.1", b"0.2", b"-0.3", b"3.0e3", b"5", b"1e17", b"1e-20", b"100000000000000000000.1"),
    one(
        b"abc",
        b"inf",
        b"-infinity",
        b"nan",
        b"",
        b"1e5000",
        b"1e-5000",
        b" 1",
        b"0x1.8p1",
        b"1e4900",
    ),
)
COUNT = often(one(b"1", b"2", b"3", b"10", b"0"), one(b"-1", b"-3", b"abc", b"1.0"))
PAST_OR_ODD = one(b"0", b"-1", b"-100", b"abc", b"", b"9223372036854775807", b"9223372036854775")
SECONDS = often(one(b"%d" % FAR_S, b"%d" % (2 * FAR_S)), PAST_OR_ODD)
MILLIS = often(one(b"%d" % (FAR_S * 1000), b"%d" % (FAR_S * 3000)), PAST_OR_ODD)
AT_S = often(one(b"%d" % NOW_S, b"%d" % (NOW_S + FAR_S)), one(b"1", b"1000", b"0", b"-1", b"abc"))
AT_MS = often(one(b"%d" % (NOW_S * 1000), b"%d" % (NOW_S * 1001)), one(b"1", b"1000", b"-1", b""))
PATTERN = one(
    b"*", b"a*", b"?", b"[a-c]", b"[^a]*", b"users:?", b"x:{y}", b"\\a", b"*s*:*", b"", b"[", b"**",
    b"a", b"[b-", b"\\", b"*[12]", b"[^", b"[\\]a]", b"[c-a]",
)  # fmt: skip
OPTION = one(b"FOO", b"NX", b"ex")
SIDE = often(one(b"LEFT", b"RIGHT", b"left"), one(b"UP"))
WAIT_S = often(one(b"0.001", b"1e-3"), one(b"-1", b"abc", b"inf", b"1e400", b""))

LIVES = (
    said(b"EX", SECONDS),
    said(b"PX", MILLIS),
    said(b"EXAT", AT_S),
    said(b"PXAT", AT_MS),
    (one(b"EX", b"PXAT"),),
)
WHEN = any_of(said(b"NX"), said(b"XX"), said(b"GT"), said(b"LT"), (OPTION,))
SCANNED = any_of(said(b"MATCH", PATTERN), said(b"COUNT", COUNT), said(b"MATCH", PATTERN))
CURSOR = often(one(b"0"), one(b"abc", b"1x", b"99999999999999999999999"))
ENDS = (SMALL, SMALL)

GRAMMAR: Final[dict[str, Words]] = {
    "GET": (KEY,),
    "SET": (KEY, TEXT, any_of(said(b"NX"), said(b"XX"), said(b"GET"), said(b"KEEPTTL"), *LIVES)),
    "SETNX": (KEY, TEXT),
    "SETEX": (KEY, SECONDS, TEXT),
    "PSETEX": (KEY, MILLIS, TEXT),
    "GETSET": (KEY, TEXT),
    "GETDEL": (KEY,),
    "GETEX": (KEY, any_of(said(b"PERSIST"), *LIVES)),
    "MGET": (some(KEY),),
    "MSET": (some(KEY, TEXT),),
    "APPEND": (KEY, TEXT),
    "STRLEN": (KEY,),
    "INCR": (KEY,),
    "INCRBY": (KEY, NUMBER),
    "DECR": (KEY,),
    "DECRBY": (KEY, NUMBER),
    "INCRBYFLOAT": (KEY, FRACTION),
    "SETRANGE": (KEY, PLACE, TEXT),
    "GETRANGE": (KEY, *ENDS),
    "DEL": (some(KEY),),
    "UNLINK": (some(KEY),),
    "EXISTS": (some(KEY),),
    "TOUCH": (some(KEY),),
    "TYPE": (KEY,),
    "PERSIST": (KEY,),
    "EXPIRE": (KEY, SECONDS, WHEN),
    "PEXPIRE": (KEY, MILLIS, WHEN),
    "EXPIREAT": (KEY, AT_S, WHEN),
    "PEXPIREAT": (KEY, AT_MS, WHEN),
    "TTL": (KEY,),
    "PTTL": (KEY,),
    "EXPIRETIME": (KEY,),
    "PEXPIRETIME": (KEY,),
    "SCAN": (
        CURSOR,
        any_of(
            said(b"MATCH", PATTERN), said(b"COUNT", COUNT), said(b"TYPE", one(b"set", b"STRING"))
        ),
    ),
    "KEYS": (PATTERN,),
    "DBSIZE": (),
    "RANDOMKEY": (),
    "FLUSHDB": (maybe(one(b"ASYNC", b"sync", b"foo")),),
    "SADD": (KEY, some(MEMBER)),
    "SREM": (KEY, some(MEMBER)),
    "SMEMBERS": (KEY,),
    "SISMEMBER": (KEY, MEMBER),
    "SMISMEMBER": (KEY, some(MEMBER)),
    "SCARD": (KEY,),
    "SPOP": (KEY, maybe(COUNT)),
    "SRANDMEMBER": (KEY, maybe(COUNT)),
    "SSCAN": (KEY, CURSOR, SCANNED),
    "SINTER": (some(KEY),),
    "SUNION": (some(KEY),),
    "SDIFF": (some(KEY),),
    "HSET": (KEY, some(MEMBER, TEXT)),
    "HSETNX": (KEY, MEMBER, TEXT),
    "HDEL": (KEY, some(MEMBER)),
    "HINCRBY": (KEY, MEMBER, NUMBER),
    "HINCRBYFLOAT": (KEY, MEMBER, FRACTION),
    "HGET": (KEY, MEMBER),
    "HMGET": (KEY, some(MEMBER)),
    "HGETALL": (KEY,),
    "HEXISTS": (KEY, MEMBER),
    "HLEN": (KEY,),
    "HSTRLEN": (KEY, MEMBER),
    "HKEYS": (KEY,),
    "HVALS": (KEY,),
    "HRANDFIELD": (KEY, maybe(COUNT, maybe(one(b"WITHVALUES", b"foo")))),
    "HSCAN": (KEY, CURSOR, SCANNED),
    "LPUSH": (KEY, some(MEMBER)),
    "RPUSH": (KEY, some(MEMBER)),
    "LPUSHX": (KEY, some(MEMBER)),
    "RPUSHX": (KEY, some(MEMBER)),
    "LPOP": (KEY, maybe(COUNT)),
    "RPOP": (KEY, maybe(COUNT)),
    "LMOVE": (KEY, KEY, SIDE, SIDE),
    "RPOPLPUSH": (KEY, KEY),
    "LRANGE": (KEY, *ENDS),
    "LLEN": (KEY,),
    "LINDEX": (KEY, SMALL),
    "LSET": (KEY, SMALL, MEMBER),
    "LTRIM": (KEY, *ENDS),
    "LREM": (KEY, SMALL, MEMBER),
    "LINSERT": (KEY, often(one(b"BEFORE", b"after"), one(b"foo")), MEMBER, MEMBER),
    "LPOS": (
        KEY,
        MEMBER,
        any_of(said(b"RANK", SMALL), said(b"COUNT", COUNT), said(b"MAXLEN", COUNT), (OPTION,)),
    ),
    "BLPOP": (some(KEY), WAIT_S),
    "BRPOP": (some(KEY), WAIT_S),
    "BLMOVE": (KEY, KEY, SIDE, SIDE, WAIT_S),
}
SELDOM: Final = ("FLUSHDB",)
SLOW: Final = ("BLPOP", "BRPOP", "BLMOVE")


def call(random: Random) -> list[bytes]:
    """Any call; one of ten with too much or too little, one of a hundred unknown."""
    name = random.choice(tuple(GRAMMAR))
    while name in SELDOM + SLOW and random.random() < 0.9:
        name = random.choice(tuple(GRAMMAR))
    args = [name.encode(), *joined(GRAMMAR[name], random)]
    if random.random() < 0.2:
        args[0] = args[0].lower()
    if random.random() < 0.1 and name not in SLOW:
        args = [*args, b"more"] if random.random() < 0.5 else args[: random.randint(1, len(args))]
    if random.random() < 0.01:
        args[0] = random.choice((b"NOPE", b"no pe\r\n", b"x" * 200, b"\xff\xfe"))
    return args
