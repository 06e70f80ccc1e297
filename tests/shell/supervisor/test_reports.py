"""The lines between a member process and its supervisor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import MessageError
from holdfast.shell.supervisor.reports import (
    LINE_BYTES_MAX,
    Introduced,
    Lines,
    Members,
    Ready,
    Report,
    Waiting,
    decode,
    encode,
)

REPORTS: st.SearchStrategy[Report] = st.one_of(
    st.from_type(Introduced),
    st.builds(Waiting, st.text()),
    st.builds(Ready),
    st.from_type(Members),
)


@given(st.lists(REPORTS), st.integers(1, 50))
def test_reports_come_out_as_they_went_in(reports: list[Report], size: int) -> None:
    stream = b"".join(map(encode, reports))
    lines = Lines()
    found = []
    for start in range(0, len(stream), size):
        found += [decode(line) for line in lines.feed(stream[start : start + size])]
    assert found == reports


@pytest.mark.parametrize(
    "line", [b"", b"x", b"{}", b"[]", b'{"report":"other"}', b'{"report":"waiting"}', b"\xff"]
)
def test_what_is_no_report(line: bytes) -> None:
    with pytest.raises(MessageError, match="not a report"):
        decode(line)


@given(st.binary(max_size=200))
def test_any_bytes(line: bytes) -> None:
    try:
        decode(line)
    except MessageError:
        return


def test_a_line_that_never_ends_is_cut() -> None:
    lines = Lines()
    endless = b"x" * (LINE_BYTES_MAX + 1)
    assert lines.feed(endless) == [endless]
    assert lines.feed(b"a\nb") == [b"a"], "the stream goes on"
