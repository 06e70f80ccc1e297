"""Planning, without Spark and without a cluster: by tables, and by many examples."""

from __future__ import annotations

import ast
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark_filters

import holdfast_spark.planning
from holdfast.errors import HoldfastError
from holdfast_spark.errors import ChangesLost, OptionError, SchemaError, SparkError
from holdfast_spark.options import Options, Use
from holdfast_spark.planning.columns import layout_of
from holdfast_spark.planning.filters import Condition, keys_of, split, understand
from holdfast_spark.planning.groups import group
from holdfast_spark.planning.positions import (
    Place,
    Point,
    Position,
    advance,
    lag,
    shares,
    stretches,
)
from holdfast_spark.planning.shape import default_schema, shape_of

LEAST = {"endpoints": "http://a:1", "map": "users"}


def options(*uses: Use, **more: str) -> Options:
    return Options.of(LEAST | more, *(uses or (Use.READ,)))


def fields(**types: Any) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind, "nullable": True} for name, kind in types.items()]


# Groups -------------------------------------------------------------------------------------------


def test_tasks_that_start_together_ask_different_members() -> None:
    owners = ["a", "b", "a", "b", "a", "c"]
    assert [(each.owner, each.partitions) for each in group(owners, range(6), 6)] == [
        ("a", (0,)),
        ("b", (1,)),
        ("c", (5,)),
        ("a", (2,)),
        ("b", (3,)),
        ("a", (4,)),
    ]
    assert group(owners, []) == []


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=200), st.integers(0, 40), st.data())
def test_each_wanted_partition_is_in_one_group(
    owners: list[str], tasks: int, data: st.DataObject
) -> None:
    wanted = data.draw(st.sets(st.sampled_from(range(len(owners))))) if owners else set()
    found = group(owners, wanted, tasks)
    assert sorted(each for one in found for each in one.partitions) == sorted(wanted)
    assert all(owners[each] == one.owner for one in found for each in one.partitions)
    assert all(one.partitions for one in found)
    if tasks:
        assert len(found) < tasks + 4
    else:
        assert all(len(one.partitions) <= 32 for one in found)


# Shapes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "`key` string, `value` binary, `version` binary, `expires_at` timestamp"),
        ({"format": "json", "columns": "value,key"}, "`value` string, `key` string"),
        ({"columns": "key, _partition"}, "`key` string, `_partition` int"),
    ],
)
def test_the_default_schema(more: dict[str, str], expected: str) -> None:
    assert default_schema(options(**more)) == expected


def test_values_are_read_only_where_they_are_needed() -> None:
    assert not shape_of(fields(key="string", version="binary"), options()).needs_values
    assert shape_of(fields(key="string", value="binary"), options()).needs_values
    assert shape_of(fields(age="long"), options(format="json")).needs_values


STRUCT = {"type": "struct", "fields": [{"name": "x", "type": "interval", "nullable": True}]}


@pytest.mark.parametrize(
    ("declared", "more", "complaint"),
    [
        (fields(), {}, "a schema has columns"),
        (fields(key="string") * 2, {}, "each with a name of its own"),
        (fields(key="long"), {}, "column 'key' can be string or binary, not long"),
        (fields(value="long"), {}, "column 'value' can be binary or string, not long"),
        (fields(version="string"), {}, "column 'version' can be binary"),
        (fields(expires_at="date"), {}, "column 'expires_at' can be timestamp or long, not date"),
        (fields(age="long"), {}, "column 'age': values are raw bytes and have no fields"),
        (fields(_change="string"), {}, "column '_change' is for streams"),
        (fields(x="variant"), {"format": "json"}, "column 'x': no value can be decoded to variant"),
        (fields(x=STRUCT), {"format": "json"}, "column 'x'.x: no value can be decoded to interval"),
        (
            fields(x={"type": "map", "keyType": "long", "valueType": "long"}),
            {"format": "msgpack"},
            "keys of a map in a value are strings",
        ),
        (
            [{"name": "x", "type": "long", "nullable": False}],
            {"format": "json", "undecodable": "null"},
            "column 'x' may be null here, but is declared as never null",
        ),
    ],
)
def test_columns_that_cannot_be_read(
    declared: list[dict[str, Any]], more: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SchemaError, match=complaint) as caught:
        shape_of(declared, options(**more))
    assert "map 'users'" in str(caught.value)


@pytest.mark.parametrize("columns", ["key,x", "key,key"])
def test_columns_that_are_not_there(columns: str) -> None:
    with pytest.raises(OptionError, match="option 'columns'"):
        default_schema(options(columns=columns))


def test_columns_and_a_schema_say_the_same_or_nothing() -> None:
    assert shape_of(fields(key="string"), options(columns="key")).columns
    with pytest.raises(OptionError, match="declare just the columns"):
        shape_of(fields(key="string", value="binary"), options(columns="key"))


# Layouts ------------------------------------------------------------------------------------------


def test_what_is_written_of_a_row() -> None:
    found = layout_of(
        fields(gone="boolean", age="long", key="string", ttl="double", version="binary"),
        options(Use.WRITE, format="json", ttl_column="ttl", delete_column="gone"),
    )
    assert (found.key, found.value, found.fields, found.names) == (2, None, (1,), ("age",))
    assert (found.ttl, found.delete, found.expires) == (3, 0, None)


@pytest.mark.parametrize(
    ("declared", "more", "complaint"),
    [
        (fields(value="string"), {}, "there is no column 'key'"),
        (fields(key="long", value="string"), {}, "column 'key' can be string or binary, not long"),
        (fields(key="string"), {}, "there is no column 'value'; to write columns as fields"),
        (fields(key="string"), {"format": "json"}, "there is no column to write as the value"),
        (fields(key="string", value="long"), {}, "column 'value' can be binary or string, not lo"),
        (fields(key="string", value="string", x="long"), {}, "column 'x' besides 'value'"),
        (fields(key="string", value="string"), {"ttl_column": "t"}, "there is no column 't'"),
        (
            fields(key="string", value="string", t="string"),
            {"ttl_column": "t"},
            "column 't' can be byte or short",
        ),
        (
            fields(key="string", value="string", t="long", expires_at="long"),
            {"ttl_column": "t"},
            "has a column 'expires_at' too",
        ),
        (
            fields(key="string", value="string"),
            {"delete_column": "value"},
            "'value' is the column of something else",
        ),
    ],
)
def test_columns_that_cannot_be_written(
    declared: list[dict[str, Any]], more: dict[str, str], complaint: str
) -> None:
    with pytest.raises(HoldfastError, match=complaint):
        layout_of(declared, options(Use.WRITE, **more))


# Filters ------------------------------------------------------------------------------------------

SHAPE = shape_of(
    fields(
        key="string",
        version="binary",
        age="integer",
        rate="double",
        at="timestamp",
        day="date",
        _undecodable="string",
    ),
    options(format="json"),
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (("EqualTo", ("key",), "a"), Condition("key", "equal", "a")),
        (("EqualNullSafe", ("age",), None), Condition("age", "same")),
        (("In", ("age",), (1, None)), Condition("age", "is_in", (1, None))),
        (("LessThan", ("at",), NOON), Condition("at", "less", NOON)),
        (("GreaterThanOrEqual", ("day",), date(2026, 1, 1)), ("day", "greater_equal")),
        (("StringStartsWith", ("key",), "u"), Condition("key", "starts_with", "u")),
        (("IsNotNull", ("age",)), Condition("age", "is_null", negated=True)),
        (("EqualTo", ("version",), b"x"), Condition("version", "equal", b"x")),
        (("EqualTo", ("rate",), 1.0), None),
        (("EqualTo", ("age",), Decimal(1)), None),
        (("EqualTo", ("age",), 1 << 31), None),
        (("EqualTo", ("age",), True), None),
        (("EqualTo", ("at",), NOON.replace(tzinfo=None)), None),
        (("EqualTo", ("day",), NOON), None),
        (("EqualTo", ("a", "b"), 1), None),
        (("EqualTo", ("other",), 1), None),
        (("EqualTo", ("_undecodable",), "x"), None),
        (("In", ("key",), ("a", 1)), None),
        (("StringContains", ("version",), "a"), None),
    ],
)
def test_filters_that_are_understood(filter_: tuple[Any, ...], expected: Any) -> None:
    name, *rest = filter_
    given_ = getattr(spark_filters, name)(*rest)
    found = understand(given_, SHAPE)
    if isinstance(expected, tuple):
        assert found is not None
        assert (found.column, found.function) == expected
        return
    assert found == expected
    opposite = understand(spark_filters.Not(given_), SHAPE)
    if expected is None or expected.negated:
        assert opposite is None
    else:
        assert opposite == Condition(
            expected.column, expected.function, expected.value, negated=True
        )


def test_what_needs_no_value_comes_first() -> None:
    key, age = Condition("key", "equal", "a"), Condition("age", "equal", 1)
    assert split([age, key], SHAPE) == ([key], [age])


@pytest.mark.parametrize(
    ("conditions", "keys", "expected"),
    [
        ([], "short", None),
        ([Condition("age", "equal", 1)], "short", None),
        ([Condition("key", "greater", "a")], "short", None),
        ([Condition("key", "equal", "a", negated=True)], "short", None),
        ([Condition("key", "equal", "a")], "short", [b"users:a"]),
        ([Condition("key", "equal", "users:a")], "full", [b"users:a"]),
        ([Condition("key", "is_in", ("b", "a", None))], "short", [b"users:a", b"users:b"]),
        ([Condition("key", "is_in", ("b", "a")), Condition("key", "same", "c")], "short", []),
        ([Condition("key", "same", None)], "short", []),
    ],
)
def test_the_only_keys_that_can_be_wanted(
    conditions: list[Condition], keys: str, expected: list[bytes] | None
) -> None:
    assert keys_of(conditions, SHAPE, options(keys=keys)) == expected


# Positions ----------------------------------------------------------------------------------------

POINTS = st.builds(Point, st.integers(0, 1 << 31), st.integers(0, 1 << 47))


@given(st.lists(st.builds(Place, POINTS, st.booleans()), max_size=20))
def test_an_offset_is_what_spark_keeps(places: list[Place]) -> None:
    position = Position(tuple(places))
    assert Position.of(position.offset("users"), "users") == position


@given(POINTS, POINTS)
def test_points_compare_as_versions_do(one: Point, other: Point) -> None:
    assert (one < other) == (one.version() < other.version())


@pytest.mark.parametrize(
    "offset",
    [
        {"version": 2, "map": "users", "points": []},
        {"version": 1, "map": "other", "points": []},
        {"version": 1, "map": "users", "points": ["7"]},
        {"version": 1, "map": "users", "points": ["a-b"]},
        {},
    ],
)
def test_an_offset_of_something_else_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(SparkError, match=r"of another stream|no point of a journal"):
        Position.of(offset, "users")


@given(st.lists(st.integers(0, 1_000), max_size=30), st.integers(0, 5_000))
def test_what_is_waiting_is_shared_out(waiting: list[int], limit: int) -> None:
    found = shares(waiting, limit)
    assert sum(found) == min(limit, sum(waiting))
    assert all(0 <= taken <= there for taken, there in zip(found, waiting, strict=True))
    cut = [taken for taken, there in zip(found, waiting, strict=True) if taken < there]
    if cut:
        assert max(found) - min(cut) <= 1


@given(st.data(), st.integers(1, 500))
def test_a_stream_comes_to_where_the_journals_end(data: st.DataObject, limit: int) -> None:
    """Never back, never too much at a time, and always to the end."""
    count = data.draw(st.integers(1, 8))
    begun = [Point(7, data.draw(st.integers(0, 900))) for _ in range(count)]
    ends = [Point(7, each.number + data.draw(st.integers(0, 900))) for each in begun]
    at = Position(tuple(Place(each, data.draw(st.booleans())) for each in begun))
    for _ in range(sum(lag(at, ends)) + 2):
        following = advance(at, ends, limit)
        steps = [
            new.point.number - old.point.number
            for new, old in zip(following.places, at.places, strict=True)
            if not old.whole
        ]
        assert all(step >= 0 for step in steps)
        assert sum(steps) <= limit
        assert not any(place.whole for place in following.places)
        if following == at:
            break
        at = following
    assert at == Position(tuple(map(Place, ends)))


def test_a_partition_with_another_owner_since_is_taken_whole() -> None:
    start = Position((Place(Point(7, 10)), Place(Point(7, 10))))
    newest = [Point(8, 500), Point(7, 500)]
    assert advance(start, newest, 20).places == (Place(Point(8, 500)), Place(Point(7, 20)))


def test_stretches_are_where_something_is_to_be_read() -> None:
    start = Position((Place(Point(7, 1)), Place(Point(7, 5), whole=True), Place(Point(7, 9))))
    end = Position((Place(Point(7, 1)), Place(Point(7, 5)), Place(Point(8, 12))))
    found = stretches(start, end)
    assert [(each.partition, each.end) for each in found] == [(1, Point(7, 5)), (2, Point(8, 12))]
    with pytest.raises(ChangesLost, match="had 3 partitions and has 1"):
        stretches(start, Position(end.places[:1]))


# The whole ----------------------------------------------------------------------------------------


def test_planning_imports_no_spark() -> None:
    folder = Path(holdfast_spark.planning.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith(("pyspark", "pyarrow")), path
