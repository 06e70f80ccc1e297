"""Values into columns: JSON or msgpack, checked against the types that were declared.

A whole block is decoded at once; only if something in it can't be, each value is looked at by
itself, to find out which. What is not declared in a value is passed over without making an object
of it. Text in `binary` fields is base64 in JSON and bytes in msgpack; a time without a zone is UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, NotRequired, Required, TypedDict

import msgspec
import pyarrow as pa
from msgspec import Meta

from holdfast_spark.options import Format
from holdfast_spark.planning.shape import Role, Shape

WORDS: Final[dict[str, Any]] = {
    "string": str,
    "binary": bytes,
    "boolean": bool,
    "byte": Annotated[int, Meta(ge=-(1 << 7), lt=1 << 7)],
    "short": Annotated[int, Meta(ge=-(1 << 15), lt=1 << 15)],
    "integer": Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)],
    "long": Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    "float": float,
    "double": float,
    "date": date,
    "timestamp": datetime,
}
PROBLEM_CHARACTERS: Final = 200
WRONG: Final = (msgspec.DecodeError, pa.ArrowInvalid, ValueError, OverflowError, TypeError)


class Decoder:
    """Makes columns of the values of one shape."""

    def __init__(self, shape: Shape, format_: Format, schema: pa.Schema) -> None:
        self._fields = pa.struct([schema.field(each.name) for each in shape.fields])
        self._whole = next((each for each in shape.columns if each.role is Role.VALUE), None)
        self._as_text = self._whole is not None and self._whole.type == "string"
        self._value_type = None if self._whole is None else schema.field(self._whole.name).type
        fields = [(each.name, each.type, each.nullable) for each in shape.fields]
        self._read_fields = _reader(_object_type(fields), format_) if fields else None
        whole = object if self._whole is None or self._as_text else _type_of(self._whole.type)
        self._read_whole = _reader(whole, format_) if self._whole is not None else None
        self._is_json = format_ is Format.JSON

    def decode(
        self, values: Sequence[bytes | None]
    ) -> tuple[dict[str, pa.Array], list[str | None] | None]:
        """The columns by their names, and why a value could not be decoded, if one couldn't."""
        try:
            return self._columns(values), None
        except WRONG:
            reasons = [self._reason(each) for each in values]
            fit = [None if reason else each for each, reason in zip(values, reasons, strict=True)]
            return self._columns(fit), reasons

    def _reason(self, value: bytes | None) -> str | None:
        try:
            self._columns([value])
        except WRONG as error:
            return f"{type(error).__name__}: {error}"[:PROBLEM_CHARACTERS]
        return None

    def _columns(self, values: Sequence[bytes | None]) -> dict[str, pa.Array]:
        found: dict[str, pa.Array] = {}
        if self._read_fields is not None:
            read = self._read_fields
            objects = [None if each is None else read(each) for each in values]
            together = pa.array(objects, type=self._fields, from_pandas=False)
            names = [field.name for field in self._fields]
            found = dict(zip(names, together.flatten(), strict=True))
        if self._whole is not None and self._read_whole is not None:
            whole = [None if each is None else self._shown(each) for each in values]
            found[self._whole.name] = pa.array(whole, type=self._value_type)
        return found

    def _shown(self, value: bytes) -> Any:
        assert self._read_whole is not None, "there is a column for it"
        found = self._read_whole(value)
        if not self._as_text:
            return found
        return value.decode() if self._is_json else msgspec.json.encode(found).decode()


def _reader(kind: Any, format_: Format) -> Callable[[bytes], Any]:
    made: Any = msgspec.json.Decoder if format_ is Format.JSON else msgspec.msgpack.Decoder
    decode: Callable[[bytes], Any] = made(kind).decode
    return decode


def _object_type(fields: Sequence[tuple[str, Any, bool]]) -> Any:
    """Of an object with these fields; what it has besides is passed over."""
    known = {
        name: NotRequired[_type_of(kind) | None] if nullable else Required[_type_of(kind)]
        for name, kind, nullable in fields
    }
    make: Any = TypedDict
    return make("Object", known)


def _type_of(kind: Any) -> Any:
    """What Python reads a type of Spark's into."""
    if isinstance(kind, str):
        return WORDS.get(kind, Decimal)
    if kind["type"] == "array":
        return list[_type_of(kind["elementType"]) | None]  # type: ignore[misc]  # made at run time
    if kind["type"] == "map":
        return dict[str, _type_of(kind["valueType"]) | None]  # type: ignore[misc]  # likewise
    return _object_type([(each["name"], each["type"], each["nullable"]) for each in kind["fields"]])
