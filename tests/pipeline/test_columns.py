"""Rows to Arrow and back, without Spark and without a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.stores.record import Kind, build, version_at
from holdfast.ids import PartitionId
from holdfast.wire.rows import About, Rows, decode, encode
from holdfast_spark.arrow import Batches
from holdfast_spark.blocks import BLOCK_BYTES, Blocks
from holdfast_spark.errors import RowRefused, SchemaError, SparkError, ValueUndecodable
from holdfast_spark.options import Options, Use
from holdfast_spark.planning.columns import layout_of
from holdfast_spark.planning.filters import Condition
from holdfast_spark.planning.shape import shape_of

LEAST = {"endpoints": "http://a:1", "map": "users"}
NAMES = {"string": "string", "binary": "binary", "long": "int64", "boolean": "bool"}
PARTITIONS = 7
NOW_MS = 1_000_000


def fields(types: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind, "nullable": True} for name, kind in types.items()]


def arrow_type(kind: str) -> pa.DataType:
    if kind == "timestamp":
        return pa.timestamp("us", "UTC")
    return pa.type_for_alias(
        {"long": "int64", "integer": "int32", "boolean": "bool"}.get(kind, kind)
    )


def rows_of(*rows: tuple[bytes, int, int, bytes], partition: int = 0, last: bool = True) -> Rows:
    """Key, kind, expiry, value; the number of a row is its place, from 1."""
    mutations = [
        (key, build(version_at(7, at), kind, expiry, value))
        for at, (key, kind, expiry, value) in enumerate(rows, 1)
    ]
    return decode(encode(About(PartitionId(partition), 7, 9, last=last), mutations))


def batches_of(types: dict[str, str], *, follows: bool = False, **more: Any) -> Batches:
    conditions, until = more.pop("conditions", ()), more.pop("until", None)
    options = Options.of(LEAST | more, Use.FOLLOW if follows else Use.READ)
    shape = shape_of(fields(types), options, follows=follows)
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in types.items()])
    return Batches(shape, options, schema, conditions, until)


def read(batches: Batches, *blocks: Rows) -> list[dict[str, Any]]:
    return [row for batch in batches.of(blocks) for row in batch.to_pylist()]


KEYS = st.binary(max_size=20)
ROWS = st.lists(st.tuples(KEYS, st.binary(max_size=50), st.integers(0, 1 << 40)), max_size=40)


@given(ROWS, st.integers(1, 10))
def test_what_is_written_is_read(rows: list[tuple[bytes, bytes, int]], size: int) -> None:
    """As bytes: through blocks of the right partitions, each row at its place in its partition."""
    types = {"key": "binary", "value": "binary", "expires_at": "long"}
    options = Options.of(LEAST, Use.WRITE)
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in types.items()])
    table = pa.table(
        [pa.array(each, schema.field(at).type) for at, each in enumerate(columns)], schema=schema
    )

    def partition_of(key: bytes) -> int:
        return len(key) % PARTITIONS

    blocks = Blocks(layout_of(fields(types), options), options, partition_of)
    expected: dict[int, list[dict[str, Any]]] = {}
    for key, value, expiry in rows:
        place = partition_of(b"users:" + key)
        shown = {"key": key, "value": value, "expires_at": expiry or None}
        expected.setdefault(place, []).append(shown)
    found: dict[int, list[dict[str, Any]]] = {}
    for partition, make in blocks.of(table.to_batches(max_chunksize=size)):
        block = decode(make(About(PartitionId(partition), 0, 0)))
        found.setdefault(partition, []).extend(read(batches_of(types), block))
    assert {
        place: [row | {"key": row["key"] or b""} for row in some] for place, some in found.items()
    } == expected


def test_blocks_are_neither_large_nor_torn() -> None:
    types = {"key": "string", "value": "string"}
    options = Options.of(LEAST, Use.WRITE)
    sizes = [10] * 9_000 + [BLOCK_BYTES * 2, 5]
    table = pa.table(
        {"key": [str(n) for n in range(len(sizes))], "value": ["v" * n for n in sizes]}
    )
    blocks = Blocks(layout_of(fields(types), options), options, lambda _: 3)
    made = [
        decode(make(About(PartitionId(at), 0, 0))) for at, make in blocks.of(table.to_batches())
    ]
    assert [row.key for rows in made for row in rows] == [
        b"users:%d" % n for n in range(len(sizes))
    ]
    assert all(rows.count <= 4_096 for rows in made)
    assert all(len(rows.data) <= BLOCK_BYTES * 1.5 or rows.count == 1 for rows in made)


@pytest.mark.parametrize("format_", ["json", "msgpack"])
def test_objects_are_written_as_they_are_read(format_: str) -> None:
    types = {"key": "string", "name": "string", "age": "long", "at": "timestamp"}
    options = Options.of(LEAST | {"format": format_}, Use.WRITE)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    given_ = [
        {"key": "1", "name": "ä", "age": 3, "at": noon},
        {"key": "2", "name": None, "age": None, "at": None},
    ]
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in types.items()])
    table = pa.Table.from_pylist(given_, schema=schema)
    blocks = Blocks(layout_of(fields(types), options), options, lambda _: 0)
    ((_, make),) = blocks.of(table.to_batches())
    block = decode(make(About(PartitionId(0), 0, 0)))
    assert read(batches_of(types, format=format_), block) == given_
    decoder: Any = msgspec.json.decode if format_ == "json" else msgspec.msgpack.decode
    assert decoder(next(iter(block)).value)["age"] == 3


def test_ends_and_removals() -> None:
    types = {"key": "string", "value": "string", "ttl": "long", "gone": "boolean"}
    options = Options.of(LEAST | {"ttl_column": "ttl", "delete_column": "gone"}, Use.WRITE)
    table = pa.table(
        {
            "key": ["1", "2", "3"],
            "value": ["a", None, "c"],
            "ttl": [2, None, None],
            "gone": [False, True, None],
        }
    )
    blocks = Blocks(layout_of(fields(types), options), options, lambda _: 0, lambda: NOW_MS)
    ((_, make),) = blocks.of(table.to_batches())
    rows = list(decode(make(About(PartitionId(0), 0, 0))))
    assert [(row.key, row.kind, row.expiry) for row in rows] == [
        (b"users:1", Kind.STRING, NOW_MS + 2_000),
        (b"users:2", Kind.GONE, 0),
        (b"users:3", Kind.STRING, 0),
    ]


@pytest.mark.parametrize(
    ("column", "more", "complaint"),
    [
        ({"key": [None]}, {}, "a row has no key"),
        ({"value": [None]}, {}, "key b'users:1' has no value"),
        ({}, {"keys": "full"}, "b'1' is no key of it"),
        ({"ttl": [-1]}, {"ttl_column": "ttl"}, "option 'ttl_column': -1.0 is no time to live"),
        ({"ttl": [0]}, {"ttl_column": "ttl"}, "option 'ttl_column': 0.0 is no time to live"),
        ({}, {"format": "json"}, "key '1': the value is no JSON"),
    ],
)
def test_rows_that_cannot_be_written(
    column: dict[str, list[Any]], more: dict[str, str], complaint: str
) -> None:
    types = {"key": "string", "value": "string"} | ({"ttl": "long"} if "ttl" in column else {})
    options = Options.of(LEAST | more, Use.WRITE)
    given_ = {"key": ["1"], "value": ["{"]} | column
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in types.items()])
    blocks = Blocks(layout_of(fields(types), options), options, lambda _: 0)
    with pytest.raises(RowRefused, match=complaint) as caught:
        list(blocks.of(pa.table(given_, schema=schema).to_batches()))
    assert "map 'users'" in str(caught.value)


CHANGED = rows_of(
    (b"users:1", Kind.STRING, 0, b"a"),
    (b"users:2", Kind.GONE, 0, b""),
    (b"", Kind.EMPTIED, 0, b""),
    (b"users:3", Kind.STRING, 5_000, b"b"),
    partition=4,
)


def test_a_stream_says_what_happened() -> None:
    types = {"key": "string", "value": "binary", "_change": "string", "_partition": "integer"}
    assert [tuple(row.values()) for row in read(batches_of(types, follows=True), CHANGED)] == [
        ("1", b"a", "written", 4),
        ("2", None, "deleted", 4),
        (None, None, "emptied", 4),
        ("3", b"b", "written", 4),
    ]
    until = read(batches_of(types, follows=True, until=2), CHANGED)
    assert [row["key"] for row in until] == ["1", "2"]


def test_a_value_that_is_no_value_is_not_passed_over() -> None:
    rows = rows_of((b"users:1", Kind.HASH, 0, b"x"), (b"users:2", Kind.STRING, 0, b"\xff"))
    types = {"key": "string", "value": "string"}
    with pytest.raises(ValueUndecodable, match="key b'users:1': it is a hash, and no string"):
        read(batches_of(types), rows)
    skipping = batches_of(types, undecodable="skip")
    assert read(skipping, rows) == []
    assert (skipping.counts.undecodable, skipping.counts.rows) == (2, 0)
    assert skipping.counts.first.startswith("b'users:1'")
    nulls = read(batches_of(types | {"_undecodable": "string"}, undecodable="null"), rows)
    assert [row["value"] for row in nulls] == [None, None]
    assert "can't decode byte 0xff" in nulls[1]["_undecodable"]


def test_a_key_that_is_no_text_is_told() -> None:
    rows = rows_of((b"users:\xff", Kind.STRING, 0, b"x"))
    with pytest.raises(SchemaError, match="declare the column 'key' as binary"):
        read(batches_of({"key": "string"}), rows)
    assert read(batches_of({"key": "binary"}), rows) == [{"key": b"\xff"}]


def test_errors_go_from_executors_to_the_driver() -> None:
    import pickle

    error = ValueUndecodable("as it is")
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(found), str(found)) == (ValueUndecodable, "as it is")
    assert isinstance(found, SparkError)


VALUES = [None, -1, 0, 1, 5]


@given(
    st.lists(st.sampled_from(VALUES), max_size=20),
    st.sampled_from(["equal", "less", "greater_equal", "is_in", "is_null", "same"]),
    st.sampled_from([0, 1, 5]),
    st.booleans(),
    st.booleans(),
)
def test_filters_hold_as_in_sql(
    ages: list[int | None], function: str, value: int, negated: bool, with_null: bool
) -> None:
    """By an oracle that knows three truths."""
    given_: Any = {"is_in": (value, None) if with_null else (value,), "is_null": None}.get(
        function, None if with_null and function == "same" else value
    )

    def holds(age: int | None) -> bool | None:
        if function == "is_null":
            return age is None
        if function == "same":
            return bool(age == given_)
        if age is None:
            return None
        if function == "is_in":
            return True if age == value else (None if with_null else False)
        truths: dict[str, bool] = {
            "equal": age == value,
            "less": age < value,
            "greater_equal": age >= value,
        }
        return truths[function]

    expected = []
    for at, age in enumerate(ages):
        truth = holds(age)
        if truth is not None and truth != negated:
            expected.append(str(at))
    blocks = [
        rows_of((b"users:%d" % at, Kind.STRING, 0, msgspec.json.encode({"age": age})))
        for at, age in enumerate(ages)
    ]
    condition = Condition("age", function, given_, negated)
    types = {"key": "string", "age": "long"}
    batches = batches_of(types, format="json", conditions=[condition])
    assert [row["key"] for row in read(batches, *blocks)] == expected
