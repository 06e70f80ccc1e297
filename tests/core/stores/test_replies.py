"""Replies as bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores import replies
from holdfast.core.stores.replies import RESP2, RESP3
from tests.core.stores.replicas import decode


@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 1100))
def test_integers(value: int) -> None:
    assert replies.integer(value) == b":%d\r\n" % value


@given(st.lists(st.binary(max_size=20)))
def test_byte_strings_come_back_whatever_is_in_them(values: list[bytes]) -> None:
    assert decode(replies.bulks(values)) == values


def test_line_breaks_do_not_end_an_error_early() -> None:
    assert replies.error("ERR a\r\nb\nc") == b"-ERR a  b c\r\n"
    assert replies.simple("PONG") == b"+PONG\r\n"


ITEM, ONE = replies.bulk(b"a"), replies.integer(1)


def test_dialects_differ_in_what_has_no_type_in_the_older_one() -> None:
    shown = {
        dialect.number: [
            dialect.null,
            dialect.null_array,
            dialect.fraction(b"1.5"),
            dialect.pairs([ITEM, ONE]),
            dialect.listed_pairs([(ITEM, ONE)]),
            dialect.members([ITEM, ONE]),
        ]
        for dialect in (RESP2, RESP3)
    }
    both = ITEM + ONE
    assert shown == {
        2: [b"$-1\r\n", b"*-1\r\n", b"$3\r\n1.5\r\n", *3 * [b"*2\r\n" + both]],
        3: [
            *2 * [b"_\r\n"],
            b",1.5\r\n",
            b"%1\r\n" + both,
            b"*1\r\n*2\r\n" + both,
            b"~2\r\n" + both,
        ],
    }
