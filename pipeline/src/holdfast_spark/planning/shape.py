"""Columns: which there are, what each is made of, and whether that can be.

    key          string, binary        the key
    value        by format             raw: binary, string; json, msgpack: string (as JSON), or the
                                       type that it is declared to have
    version      binary                of the value; later ones compare greater
    expires_at   timestamp, long       null: never; as a long, milliseconds since 1970
    _undecodable string                why the value could not be decoded; else null
    _change      string                of a stream: written, deleted, or emptied
    _partition   integer               of the cluster
    any other    by declaration        a field of the value, which is an object then

Without a declared schema the first four are there, or those that `columns` names. Spark does not
tell a source in Python which columns a query needs, so this is how to leave out values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from holdfast_spark.errors import OptionError, SchemaError
from holdfast_spark.options import Format, Options, Undecodable

Declared = Mapping[str, Any]
"""A field of a schema, as Spark writes it in JSON: name, type, nullable."""


class Role(Enum):
    """What a column is made of."""

    KEY = "key"
    VALUE = "value"
    VERSION = "version"
    EXPIRES = "expires_at"
    PROBLEM = "_undecodable"
    CHANGE = "_change"
    PARTITION = "_partition"
    FIELD = ""


NAMED: Final = {role.value: role for role in Role if role.value}
OTHERS: Final = {"_undecodable": "string", "_change": "string", "_partition": "int"}
DEFAULTS: Final = {"key": "string", "version": "binary", "expires_at": "timestamp"} | OTHERS
DEFAULT_COLUMNS: Final = ("key", "value", "version", "expires_at")
ALLOWED: Final = {
    Role.KEY: ("string", "binary"),
    Role.VERSION: ("binary",),
    Role.EXPIRES: ("timestamp", "long"),
    Role.PROBLEM: ("string",),
    Role.CHANGE: ("string",),
    Role.PARTITION: ("integer",),
}
RAW_VALUES: Final = ("binary", "string")
INTEGERS: Final = ("byte", "short", "integer", "long")
FIELDS: Final = frozenset(
    ("string", "binary", "boolean", *INTEGERS, "float", "double", "date", "timestamp")
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: Any
    """As in Spark's JSON: a word, or an object for what is nested."""
    role: Role
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Shape:
    """All columns, in order."""

    columns: tuple[Column, ...]

    def has(self, role: Role) -> bool:
        """Whether there is one of that kind."""
        return any(column.role is role for column in self.columns)

    @property
    def fields(self) -> tuple[Column, ...]:
        """Those that are fields of the value."""
        return tuple(column for column in self.columns if column.role is Role.FIELD)

    @property
    def needs_values(self) -> bool:
        """Whether values have to be read at all."""
        return any(each.role in (Role.VALUE, Role.FIELD, Role.PROBLEM) for each in self.columns)


def default_schema(options: Options) -> str:
    """Of a read without a declared schema, as Spark's DDL. Whether it is to be a stream is not
    known where Spark asks for it."""
    types = DEFAULTS | {"value": "binary" if options.format is Format.RAW else "string"}
    known = [*DEFAULT_COLUMNS, *OTHERS]
    chosen = options.columns or DEFAULT_COLUMNS
    for name in chosen:
        if name not in types:
            raise OptionError(
                f"option 'columns': {name!r} is none of {', '.join(known)}; fields of the value are"
                " declared with schema()"
            )
    if len(set(chosen)) != len(chosen):
        raise OptionError("option 'columns': a column is named twice")
    return ", ".join(f"`{name}` {types[name]}" for name in chosen)


def shape_of(declared: Sequence[Declared], options: Options, *, follows: bool = False) -> Shape:
    """The shape of a schema, checked; what can't be is a `SchemaError` that names the column."""
    columns = [
        Column(
            each["name"],
            each["type"],
            NAMED.get(each["name"], Role.FIELD),
            each.get("nullable", True),
        )
        for each in declared
    ]
    names = [column.name for column in columns]
    if not columns or len(set(names)) != len(names):
        raise SchemaError(f"map '{options.map}': a schema has columns, each with a name of its own")
    if options.columns and sorted(options.columns) != sorted(names):
        raise OptionError("option 'columns': with schema(), declare just the columns to have")
    for column in columns:
        _check(column, options, follows)
    return Shape(tuple(columns))


def _check(column: Column, options: Options, follows: bool) -> None:
    allowed: Iterable[str] = ALLOWED.get(column.role, ())
    what = f"map '{options.map}': column '{column.name}'"
    if column.role is Role.VALUE and options.format is Format.RAW:
        allowed = RAW_VALUES
    if column.role is Role.FIELD and options.format is Format.RAW:
        raise SchemaError(
            f"{what}: values are raw bytes and have no fields; option 'format' says json or msgpack"
        )
    if column.role is Role.CHANGE and not follows:
        raise SchemaError(f"{what} is for streams")
    if allowed and column.type not in allowed:
        raise SchemaError(f"{what} can be {' or '.join(allowed)}, not {name_of(column.type)}")
    if column.role in (Role.VALUE, Role.FIELD):
        _check_type(what, column.type)
        if not column.nullable and (options.undecodable is Undecodable.NULL or follows):
            raise SchemaError(f"{what} may be null here, but is declared as never null")


def _check_type(what: str, kind: Any) -> None:
    """Whether a value can be decoded to it."""
    if isinstance(kind, str):
        if kind not in FIELDS and not kind.startswith("decimal("):
            raise SchemaError(f"{what}: no value can be decoded to {kind}")
        return
    match kind["type"]:
        case "array":
            _check_type(what, kind["elementType"])
        case "map":
            if kind["keyType"] != "string":
                raise SchemaError(f"{what}: keys of a map in a value are strings")
            _check_type(what, kind["valueType"])
        case "struct":
            for each in kind["fields"]:
                _check_type(f"{what}.{each['name']}", each["type"])
        case other:
            raise SchemaError(f"{what}: no value can be decoded to {other}")


def name_of(kind: Any) -> str:
    """A type, shortly."""
    return kind if isinstance(kind, str) else str(kind["type"])
