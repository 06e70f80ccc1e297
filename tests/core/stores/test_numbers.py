"""Numbers as Redis reads and writes them; many more are compared in `test_against_redis`."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.command import NOT_A_FLOAT, NOT_AN_INTEGER
from holdfast.core.stores.numbers import extended, fraction_text, parse_fraction, parse_integer
from holdfast.errors import CommandError

LARGEST = Fraction(2**64 - 1) * 2 ** (16383 - 63)


@pytest.mark.parametrize("text", [b"0", b"-1", b"9223372036854775807", b"-9223372036854775808"])
def test_an_integer_is_read(text: bytes) -> None:
    assert b"%d" % parse_integer(text) == text


@pytest.mark.parametrize(
    "text",
    [b"", b" 1", b"+1", b"01", b"-0", b"--1", b"1_0", b"9223372036854775808", b"1" * 5000, b"-a"],
)
def test_what_is_no_integer_is_refused(text: bytes) -> None:
    with pytest.raises(CommandError, match=NOT_AN_INTEGER):
        parse_integer(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (b"5", b"5"),
        (b"5.", b"5"),
        (b".5", b"0.5"),
        (b"-0", b"0"),
        (b"-1e-30", b"0"),
        (b"3.0e3", b"3000"),
        (b"0.1", b"0.1"),
        (b"-12.50", b"-12.5"),
        (b"1E2", b"100"),
        (b"0x1.8p1", b"3"),
        (b"0X.8P-1", b"0.25"),
        (b"100000000000000000000.1", b"100000000000000000000"),
        (b"0e999999999999", b"0"),
        (b"1e-4940", b"0"),
    ],
)
def test_a_fraction_is_read_and_written(text: bytes, written: bytes) -> None:
    value = parse_fraction(text)
    assert value is not None
    assert fraction_text(value) == written


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b".",
        b"e5",
        b"+-1",
        b" 1",
        b"1 ",
        b"nan",
        b"0x",
        b"0x.p1",
        b"1e5000",
        b"-1e-5000",
        b"1,5",
        b"1" * 6000,
        b"1" * 5000,
        b"1e99999999999999999999",
        b"1e-99999999999999999999",
    ],
)
def test_what_is_no_fraction_is_refused(text: bytes) -> None:
    with pytest.raises(CommandError, match=NOT_A_FLOAT):
        parse_fraction(text)


@pytest.mark.parametrize("text", [b"inf", b"-INFINITY", b"+Inf"])
def test_infinity_is_read_as_such(text: bytes) -> None:
    assert parse_fraction(text) is None


def test_the_longest_number_is_written_in_full() -> None:
    text = fraction_text(LARGEST)
    assert len(text) == 4933
    assert text.startswith(b"11897314953572317650")
    assert parse_fraction(text) == LARGEST
    assert extended(LARGEST * 2) is None


def test_numbers_are_rounded_to_the_nearest_even() -> None:
    half = Fraction(1, 2)
    assert extended(2**64 + half * 2) == 2**64
    assert extended(2**64 + half * 6) == 2**64 + 4
    assert extended(Fraction(0)) == 0
    assert fraction_text(Fraction(1, 2 * 10**17)) == b"0"
    assert fraction_text(Fraction(3, 2 * 10**17)) == b"0.00000000000000002"


def test_the_smallest_numbers_have_fewer_digits() -> None:
    smallest = Fraction(1, 2**16445)
    assert extended(smallest) == smallest
    assert extended(smallest * Fraction(5, 4)) == smallest
    assert extended(smallest / 4) == 0


@given(st.integers(-(10**20), 10**20), st.integers(0, 17))
def test_short_decimals_survive_reading_and_writing(digits: int, places: int) -> None:
    """Of what is greater, 17 places say more than 64 bits hold, and the last ones show that."""
    value = Fraction(digits, 10**places)
    rounded = extended(value)
    assert rounded is not None
    assert abs(rounded - value) * 2**64 <= abs(value)
    if abs(value) < 16:
        text = fraction_text(rounded)
        assert Fraction(text.decode()) == value
