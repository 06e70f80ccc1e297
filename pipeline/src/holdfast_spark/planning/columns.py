"""What is written of a row: which column is the key, the value, when it ends, and whether it goes.

key          string, binary        the key; never null
value        by format             raw: binary, string; json, msgpack: string (JSON text), or
                                   any type that the format has
expires_at   timestamp, long       when the row ends; null: as the map says
version      any                   ignored: what is written gets a version of its own
(ttl_column, delete_column)        as the options say
any other                          a field of the value, if the format has fields and there is
                                   no column `value`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast_spark.errors import OptionError, SchemaError
from holdfast_spark.options import Format, Options
from holdfast_spark.planning.shape import Declared, name_of

NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double")


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns by their place."""

    key: int
    value: int | None
    fields: tuple[int, ...]
    names: tuple[str, ...]
    expires: int | None = None
    ttl: int | None = None
    delete: int | None = None


def layout_of(declared: Sequence[Declared], options: Options) -> Layout:
    """The layout of a schema; what can't be written is a `SchemaError` that names the column."""
    types = {each["name"]: each["type"] for each in declared}
    places = {each["name"]: at for at, each in enumerate(declared)}
    what = f"map '{options.map}'"
    if len(places) != len(declared):
        raise SchemaError(f"{what}: two columns have the same name")
    _expect(what, types, "key", ("string", "binary"))
    _expect_option(what, types, "ttl_column", options.ttl_column, NUMBERS)
    _expect_option(what, types, "delete_column", options.delete_column, ("boolean",))
    if "expires_at" in types:
        _expect(what, types, "expires_at", ("timestamp", "long"))
        if options.ttl_column:
            raise OptionError(f"option 'ttl_column': {what} has a column 'expires_at' too")
    taken = {"key", "value", "version", "expires_at", options.ttl_column, options.delete_column}
    fields = tuple(at for name, at in places.items() if name not in taken)
    names = tuple(name for name in places if name not in taken)
    if "value" in types:
        if options.format is Format.RAW:
            _expect(what, types, "value", ("binary", "string"))
        if fields:
            raise SchemaError(
                f"{what}: column '{names[0]}' besides 'value': a value is one of both"
            )
    elif options.format is Format.RAW:
        raise SchemaError(
            f"{what}: there is no column 'value'; to write columns as fields of a value, option"
            " 'format' says json or msgpack"
        )
    elif not fields:
        raise SchemaError(f"{what}: there is no column to write as the value")
    return Layout(
        places["key"],
        places.get("value"),
        fields,
        names,
        places.get("expires_at"),
        places.get(options.ttl_column),
        places.get(options.delete_column),
    )


def _expect_option(
    what: str, types: dict[str, object], option: str, name: str, allowed: Sequence[str]
) -> None:
    if not name:
        return
    if name in ("key", "value"):
        raise OptionError(f"option '{option}': '{name}' is the column of something else")
    if name not in types:
        raise OptionError(f"option '{option}': {what}: there is no column '{name}'")
    _expect(what, types, name, allowed)


def _expect(what: str, types: dict[str, object], name: str, allowed: Sequence[str]) -> None:
    if name not in types:
        raise SchemaError(f"{what}: there is no column '{name}'")
    if types[name] not in allowed:
        found = name_of(types[name])
        raise SchemaError(f"{what}: column '{name}' can be {' or '.join(allowed)}, not {found}")
