"""The HTTP interface as types: what members answer, and what clients read.

Both ends use the same models, so an answer that a client can't read is found by a type checker or
a test, never by a user. Names of fields are part of the interface: they are added, not changed.
"""

from __future__ import annotations

from typing import Final

FORWARDED: Final = "holdfast-forwarded"
"""Header of a request that a member passes on: it is passed on once."""
TTL: Final = "ttl"
"""Header with the life of a value in seconds."""
PROBLEM_TYPE: Final = "application/problem+json"
PROBLEM_URN: Final = "urn:holdfast:problem:"
"""What the type of a problem begins with."""
METRICS_PREFIX: Final = "holdfast_"
"""What the name of every metric begins with."""


def text_of(name: bytes) -> str:
    """A name for people; bytes that are no text are told in hexadecimal."""
    return name.decode(errors="backslashreplace")
