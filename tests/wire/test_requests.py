"""Requests of the Redis protocol: the same whatever the pieces, and refused with Redis' words."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.wire import requests
from holdfast.wire.requests import RequestError, RequestLimits, RequestReader, split_words

USUAL = RequestLimits()
SMALL = RequestLimits(value_bytes_max=1_000, request_bytes_max=2_000)

words = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"\r\n", b"\r\n*1\r\n", b"\r\n$3\r\n", b"*12345678", b"\0", b"x" * 900]),
)
scraps = st.sampled_from(
    [
        b"*1\r\n",
        b"*2\r\n",
        b"*0\r\n",
        b"$1\r\n",
        b"$4\r\n",
        b"$-1\r\n",
        b"PING",
        b"a",
        b"\r\n",
        b":5\r\n",
        b"+OK\r\n",
        b"-ERR\r\n",
        b"_\r\n",
        b"%1\r\n",
        b"*",
        b"$",
        b"\n",
        b" ",
        b'"',
    ]
)
commands = st.lists(st.lists(words, min_size=1, max_size=4), max_size=6)


def encoded(*arguments: bytes) -> bytes:
    """A request as clients send it."""
    items = b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in arguments)
    return b"*%d\r\n%b" % (len(arguments), items)


def read(*pieces: bytes, limits: RequestLimits = USUAL) -> tuple[list[list[bytes]], str]:
    """What comes out of these pieces, and the error at their end."""
    reader = RequestReader(limits)
    found = [request for piece in pieces for request in reader.feed(piece)]
    return found, "" if reader.error is None else reader.error.message


@given(commands, st.lists(st.integers(0, 4_000), max_size=8))
def test_pieces_make_no_difference(sent: list[list[bytes]], cuts: list[int]) -> None:
    data = b"".join(encoded(*arguments) for arguments in sent)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(bounds)]
    assert read(*pieces) == (sent, "")


@given(commands)
def test_one_byte_at_a_time(sent: list[list[bytes]]) -> None:
    data = b"".join(encoded(*arguments) for arguments in sent)
    assert read(*(data[at : at + 1] for at in range(len(data)))) == (sent, "")


@given(
    st.one_of(st.binary(max_size=300), st.lists(scraps, max_size=20).map(b"".join)),
    st.lists(st.integers(0, 100), max_size=4),
)
def test_no_bytes_do_harm(data: bytes, cuts: list[int]) -> None:
    """Anything gives requests of bytes, or an error, and the same one for any pieces."""
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(bounds)]
    found, error = read(data)
    assert all(type(word) is bytes for request in found for word in request)
    assert read(*pieces) == (found, error)


@pytest.mark.parametrize("nothing", [b"*0\r\n", b"*-1\r\n", b"\r\n"])
def test_a_request_of_nothing_is_none(nothing: bytes) -> None:
    assert read(nothing, nothing * 2, nothing + encoded(b"PING")) == ([[b"PING"]], "")


def test_most_is_read_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests._Strict, "feed", None)
    one = encoded(b"SET", b"key", b"value")
    assert read(one, one * 3) == ([[b"SET", b"key", b"value"]] * 4, "")


def test_an_empty_last_value_is_waited_for_to_its_end() -> None:
    """Its length, and the end of the line that says it, look like a value and its end."""
    reader = RequestReader(USUAL)
    assert reader.feed(encoded(b"GET", b"")[:-2]) == []
    assert reader.feed(b"\r\n") == [[b"GET", b""]]


def test_a_piece_that_ends_within_a_request_is_read_in_c_up_to_it() -> None:
    one = encoded(b"SET", b"key", b"value")
    reader = RequestReader(USUAL)
    assert len(reader.feed(one * 3 + one[:20])) == 3
    assert reader.pending_bytes == 20
    assert len(reader.feed(one[20:] + one)) == 2
    assert reader.pending_bytes == 0


def test_words_of_a_line() -> None:
    assert read(b"PING\r\n") == ([[b"PING"]], "")
    assert read(b"set  a 'b c' \n\r\n  \r\nget a\n") == (
        [[b"set", b"a", b"b c"], [b"get", b"a"]],
        "",
    )
    assert read(b"PI", b"NG\r", b"\n") == ([[b"PING"]], "")


def test_a_line_among_arrays() -> None:
    one = encoded(b"GET", b"a")
    assert read(one + b"PING\r\n" + one) == ([[b"GET", b"a"], [b"PING"], [b"GET", b"a"]], "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (rb'"a\n\r\t\b\a\x41\q\"" x', [b'a\n\r\t\b\aAq"', b"x"]),
        (rb'"\xZZ"', [b"xZZ"]),
        (rb"'it\'s \n'", [rb"it's \n"]),
        (b'a"b c"', [b"ab c"]),
        (b"", []),
        (b'""', [b""]),
    ],
)
def test_quotes(line: bytes, expected: list[bytes]) -> None:
    assert split_words(line) == expected


@pytest.mark.parametrize("line", [b'"a', b"'a", b'"a"b', b"'a'b", b'"a\\'])
def test_unbalanced_quotes(line: bytes) -> None:
    assert read(line + b"\r\n") == ([], "ERR Protocol error: unbalanced quotes in request")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*2147483647\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*" + b"1" * 40, "too big mbulk count string"),
        (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
        (b"*1\r\n:5\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        (b"*1\r\n\r\n", "expected '$', got ' '"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$1001\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$" + b"1" * 40, "too big bulk count string"),
        (b"*1\r\n$4\r\nPINGxx", "a value does not end where it should"),
        (b"*3\r\n" + b"$900\r\n%b\r\n" % (b"x" * 900) * 3, "the request is too long"),
        (b"x" * 70_000, "too big inline request"),
    ],
)
def test_refusals(data: bytes, message: str) -> None:
    assert read(data, limits=SMALL) == ([], f"ERR Protocol error: {message}")


@pytest.mark.parametrize("first", [b"POST / HTTP/1.1", b"post /", b"Host: here", b"HOST: here"])
def test_a_web_page_can_send_no_commands(first: bytes) -> None:
    """What stands in the body of its request is read by nobody; also in two pieces."""
    refused = "ERR this port speaks the Redis protocol, not HTTP"
    body = b"\r\n\r\nFLUSHALL\r\n" + encoded(b"FLUSHALL")
    assert read(first + body) == ([], refused)
    reader = RequestReader(USUAL)
    assert (reader.feed(first), reader.feed(body), reader.feed(body)) == ([], [], [])


def test_words_of_http_are_values_like_others() -> None:
    assert read(encoded(b"SET", b"POST", b"Host:")) == ([[b"SET", b"POST", b"Host:"]], "")
    assert read(b"GET POST\r\n") == ([[b"GET", b"POST"]], "")


def test_requests_before_the_bad_one_count() -> None:
    one = encoded(b"PING")
    reader = RequestReader(USUAL)
    assert reader.feed(one + b"*1\r\n:5\r\n" + one) == [[b"PING"]]
    assert reader.error is not None
    assert reader.feed(one) == []


def test_empty_arrays_are_no_requests() -> None:
    assert read(b"*0\r\n" + encoded(b"PING") + b"*-1\r\n") == ([[b"PING"]], "")


def test_a_length_that_is_too_large_is_refused_before_its_bytes_come() -> None:
    assert read(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2000000000\r\n")[1] != ""


def test_a_value_that_is_not_short() -> None:
    assert read(encoded(b"SET", b"a", b"x" * 5_000)) == ([[b"SET", b"a", b"x" * 5_000]], "")


def test_many_items() -> None:
    many = [b"x"] * 12_000
    assert read(encoded(*many)) == ([many], "")


def test_a_long_value_in_many_pieces() -> None:
    value = b"\r\n*1\r\n" * 150_000
    data = encoded(b"SET", b"k", value)
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    assert read(*pieces) == ([[b"SET", b"k", value]], "")


def test_what_comes_in_parts_has_the_same_limits() -> None:
    reader = RequestReader(RequestLimits(value_bytes_max=10, request_bytes_max=15))
    reader.check([b"GET", b"0123456789"])
    with pytest.raises(RequestError, match="invalid bulk length"):
        reader.check([b"GET", b"0123456789a"])
    with pytest.raises(RequestError, match="too long"):
        reader.check([b"0123456", b"01234567", b"8"])
