"""Numbers as Redis reads and writes them.

Fractions are computed as Redis does where its reference runs: in the extended format of 64 bits of
mantissa and 15 of exponent, rounded to the nearest, and written with 17 places without trailing
zeros. So `0.1` and `0.2` are `0.3`, and whoever moves here finds the same digits.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from holdfast.core.stores.command import NOT_A_FLOAT, NOT_AN_INTEGER
from holdfast.errors import CommandError

INTEGER_MAX: Final = (1 << 63) - 1
INTEGER_MIN: Final = -(1 << 63)
INTEGER_CHARS_MAX: Final = 20

FRACTION_CHARS_MAX: Final = 5 * 1024 - 1
PLACES: Final = 17
MANTISSA_BITS: Final = 64
EXPONENT_MIN: Final = -16382
EXPONENT_MAX: Final = 16383
POWER_OF_TEN_MAX: Final = 12_000
POWER_OF_TWO_MAX: Final = 40_000
"""Beyond these every number of `FRACTION_CHARS_MAX` digits is too large or too small, or zero."""
DIGITS_AT_ONCE: Final = 4_000
"""Python refuses to convert many more at once, for the time that it takes."""

_DECIMAL: Final = re.compile(rb"([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?", re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(
    rb"([+-]?)0x([\da-f]*)\.?([\da-f]*)(?:p([+-]?\d+))?", re.IGNORECASE
)
_INFINITE: Final = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)


def parse_integer(text: bytes, refusal: str = NOT_AN_INTEGER) -> int:
    """A 64-bit integer in its canonical notation; all else is refused, also ` 1`, `+1`, `01`."""
    if len(text) <= INTEGER_CHARS_MAX and (text.isdigit() or text[:1] == b"-"):
        try:
            value = int(text)
        except ValueError:
            raise CommandError(refusal) from None
        if INTEGER_MIN <= value <= INTEGER_MAX and b"%d" % value == text:
            return value
    raise CommandError(refusal)


def parse_fraction(text: bytes) -> Fraction | None:
    """A number in decimal or hexadecimal notation; None for an infinite one."""
    if len(text) > FRACTION_CHARS_MAX:
        raise CommandError(NOT_A_FLOAT)
    if _INFINITE.fullmatch(text):
        return None
    exact = _exact(text)
    rounded = extended(exact)
    if rounded is None or (exact and not rounded):
        raise CommandError(NOT_A_FLOAT)
    return rounded


def extended(value: Fraction) -> Fraction | None:
    """The nearest number of the extended format; None beyond its range."""
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < _power(2, exponent):
        exponent -= 1
    unit = _power(2, max(exponent, EXPONENT_MIN) - MANTISSA_BITS + 1)
    rounded = Fraction(round(value / unit)) * unit
    return rounded if abs(rounded) < _power(2, EXPONENT_MAX + 1) else None


def fraction_text(value: Fraction) -> bytes:
    """A number as Redis writes it: no exponent, at most 17 places, no zeros at the end."""
    scaled = round(abs(value) * 10**PLACES)
    whole, places = divmod(scaled, 10**PLACES)
    sign = b"-" if value < 0 and scaled else b""
    text = b"%b%b" % (sign, _digits(whole))
    return (b"%b.%0*d" % (text, PLACES, places)).rstrip(b"0") if places else text


def _exact(text: bytes) -> Fraction:
    for notation, base, step, bound in (
        (_DECIMAL, 10, 10, POWER_OF_TEN_MAX),
        (_HEXADECIMAL, 16, 2, POWER_OF_TWO_MAX),
    ):
        found = notation.fullmatch(text)
        if found is not None and (found[2] or found[3]):
            sign, whole, places, power = found.groups()
            mantissa = _integer((whole + places).lstrip(b"0"), base)
            exponent = _exponent(power or b"0", bound)
            value = mantissa * _power(step, exponent) * _power(base, -len(places))
            return -value if sign == b"-" else value
    raise CommandError(NOT_A_FLOAT)


def _exponent(text: bytes, bound: int) -> int:
    digits = text.lstrip(b"+-").lstrip(b"0") or b"0"
    size = bound if len(digits) > len(str(bound)) else min(bound, int(digits))
    return -size if text[:1] == b"-" else size


def _power(base: int, exponent: int) -> Fraction:
    return Fraction(base**exponent) if exponent >= 0 else Fraction(1, base**-exponent)


def _integer(digits: bytes, base: int) -> int:
    head, tail = digits[:DIGITS_AT_ONCE], digits[DIGITS_AT_ONCE:]
    value = int(head, base) if head else 0
    return value * base ** len(tail) + int(tail, base) if tail else value


def _digits(value: int) -> bytes:
    high, low = divmod(value, 10**DIGITS_AT_ONCE)
    return b"%d%0*d" % (high, DIGITS_AT_ONCE, low) if high else b"%d" % low
