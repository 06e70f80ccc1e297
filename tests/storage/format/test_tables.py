"""Table files: both layouts of seed 001 §3.2 byte by byte, and nothing malformed gets through."""

from __future__ import annotations

import google_crc32c
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.table import Row
from holdfast.errors import CorruptFile, LocalProtocolError, NewerFormat
from holdfast.ids import Address, MemberId, PartitionId, Version
from holdfast.storage.format import tables
from holdfast.storage.format.tables import Layout, TableFile

A, B = MemberId("6f0c4e3e-8f4f-4c86-8f62-1f9c52f7a001"), MemberId("b")
ADDRESSES = {A: Address("10.0.0.7:5701"), B: Address("")}

REPLICAS = bytes.fromhex(
    "00000002"  # two replicas
    "00000008" + b"10.0.0.7".hex() + "00001645"  # address: host, port 5701
    "00000024"
    + A.encode().hex()  # UUID
    + "00000000"
    "00000000"  # an address that is not known
    "00000001" + b"b".hex()
)
ROW_0 = bytes.fromhex("00000000 00000001" + "ffffffff" * 5)
ROW_1 = bytes.fromhex("00000001 ffffffff 00000000" + "ffffffff" * 4)

LEGACY = bytes.fromhex("0000002a 00000002") + REPLICAS + ROW_0 + ROW_1
CURRENT = (
    bytes.fromhex("00000002")
    + REPLICAS
    + bytes.fromhex("00000029")
    + ROW_0
    + bytes.fromhex("0000002a")
    + ROW_1
)


def row(partition: int, version: int, *replicas: MemberId | None) -> Row:
    return Row(PartitionId(partition), Version(version), replicas, Version(4), 9)


def table(*versions: int) -> TableFile:
    rows = (row(0, versions[0], A, B, None), row(1, versions[1], B, None, A))
    return TableFile(2, 3, rows, ADDRESSES)


def enclosed(part: bytes, layout: int, replicas: int = 3, extension: bytes = b"") -> bytes:
    """The envelope, written out."""
    start = b"HFTB" + bytes((1, layout)) + replicas.to_bytes(2, "big")
    whole = start + len(part).to_bytes(4, "big") + len(extension).to_bytes(4, "big")
    whole += part + extension
    return b"%b%b" % (whole, google_crc32c.value(whole).to_bytes(4, "big"))


def test_the_legacy_layout_has_one_version_first() -> None:
    assert tables.encode(table(42, 42), Layout.LEGACY)[16 : 16 + len(LEGACY)] == LEGACY


def test_the_current_layout_has_a_version_before_each_row() -> None:
    assert tables.encode(table(41, 42), Layout.CURRENT)[16 : 16 + len(CURRENT)] == CURRENT


@pytest.mark.parametrize(
    ("part", "layout", "versions"), [(LEGACY, 1, (42, 42)), (CURRENT, 2, (41, 42))]
)
def test_fixed_bytes_are_read(part: bytes, layout: int, versions: tuple[int, int]) -> None:
    extension = msgspec.msgpack.encode({"epochs": [4, 4], "reigns": [9, 9]})
    assert tables.decode(enclosed(part, layout, extension=extension), "t") == table(*versions)


def test_without_an_extension_data_begins_with_the_rows() -> None:
    found = tables.decode(enclosed(LEGACY, 1), "t")
    assert [(each.version, each.epoch, each.reign) for each in found.rows] == [(42, 0, 0)] * 2
    assert found.rows[1].replicas == (B, None, A)
    assert found.addresses == ADDRESSES


def test_the_level_chooses_the_layout() -> None:
    assert tables.layout_for(1, table(42, 42)) is Layout.LEGACY
    assert tables.layout_for(2, table(42, 42)) is Layout.LEGACY
    assert tables.layout_for(3, table(42, 42)) is Layout.CURRENT
    assert tables.layout_for(2, TableFile(2, 3, (), {})) is Layout.LEGACY


def test_a_table_that_was_caught_half_way_has_its_own_versions() -> None:
    assert tables.layout_for(2, table(41, 42)) is Layout.CURRENT
    one = TableFile(2, 3, (row(1, 5, A, None, None),), {})
    assert tables.layout_for(2, one) is Layout.CURRENT
    assert tables.decode(tables.encode(one, Layout.CURRENT), "t").rows == one.rows


def test_the_legacy_layout_refuses_several_versions() -> None:
    with pytest.raises(LocalProtocolError, match=r"\[41, 42\]"):
        tables.encode(table(41, 42), Layout.LEGACY)


def test_a_text_that_is_too_long_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="too long"):
        tables.encode_text("x" * 2000)


@given(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.permutations((A, B, None))), max_size=5),
    st.sampled_from(Layout),
    st.integers(0, 2**40),
)
def test_what_is_written_is_read(
    drawn: list[tuple[int, tuple[MemberId | None, ...]]], layout: Layout, term: int
) -> None:
    one = drawn[0][0] if drawn else 0
    rows = tuple(
        row(partition, one if layout is Layout.LEGACY else version, *replicas)
        for partition, (version, replicas) in enumerate(drawn)
    )
    members = {member: ADDRESSES[member] for each in rows for member in each.holders}
    whole = TableFile(max(len(rows), 1), 3, rows, members, term, 8)
    assert tables.decode(tables.encode(whole, layout), "t") == whole


BAD = {
    "ends within a number": LEGACY[:2],
    "a table of 0 partitions": bytes.fromhex("0000002a 00000000 00000000"),
    "-1 replicas": bytes.fromhex("0000002a 00000001 ffffffff"),
    "ends within a row": LEGACY[:-1],
    "1 bytes are left over": LEGACY + b"x",
    "not all among 2 replicas": LEGACY[:-28] + bytes.fromhex("00000002" + "ffffffff" * 6),
    "stands twice": LEGACY[:-28] + bytes.fromhex("00000000" * 2 + "ffffffff" * 5),
    "more than 3 replicas": LEGACY[:-28] + bytes.fromhex("ffffffff" * 6 + "00000001"),
    "a text of -2 bytes": LEGACY[:12] + bytes.fromhex("fffffffe") + LEGACY[16:],
    "not UTF-8": LEGACY[:16] + b"\xff" + LEGACY[17:],
    "version -2": bytes.fromhex("fffffffe") + LEGACY[4:],
    "member  twice": bytes.fromhex("0000002a 00000001 00000002" + "00000000" * 6),
}


@pytest.mark.parametrize("reason", BAD)
def test_what_could_not_be_written_is_refused(reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason) as refused:
        tables.decode(enclosed(BAD[reason], 1), "cluster/7.table")
    assert refused.value.file == "cluster/7.table"
    assert refused.value.offset is not None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no partition table"),
        (b"XXXX" + bytes(30), "no partition table"),
        (enclosed(LEGACY, 1)[:-1], "are not a table of"),
        (enclosed(LEGACY, 1)[:-1] + b"?", "checksum"),
        (enclosed(LEGACY, 3), "no layout has the number 3"),
        (enclosed(LEGACY, 1, replicas=8), "rows of 8 replicas"),
        (enclosed(LEGACY, 1, extension=b"\xc1"), "malformed extension"),
    ],
)
def test_a_bad_envelope_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        tables.decode(data, "t")


def test_a_later_version_is_refused_as_such() -> None:
    data = bytearray(enclosed(LEGACY, 1))
    data[4] = 2
    with pytest.raises(NewerFormat, match="version 2 of table files; this is version 1"):
        tables.decode(bytes(data), "t")


@given(st.binary(max_size=300))
def test_rubbish_is_refused(data: bytes) -> None:
    for layout in (1, 2):
        with pytest.raises(CorruptFile):
            tables.decode(enclosed(b"\x7f" + data, layout), "t")
    with pytest.raises(CorruptFile):
        tables.decode(data, "t")
