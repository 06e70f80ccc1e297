"""Columns into values: the other direction of `decoding`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from holdfast_spark.errors import RowRefused
from holdfast_spark.options import Format, Options
from holdfast_spark.planning.columns import Layout

Encode = Callable[[pa.RecordBatch], pa.Array]


def encoder(layout: Layout, options: Options) -> Encode:
    """What makes the column of values of a batch."""
    if layout.value is None:
        return _Objects(layout, _writer(options.format))
    if options.format is Format.RAW:
        return _Raw(layout.value)
    return _Whole(layout.value, layout.key, options)


def _writer(format_: Format) -> Callable[[Any], bytes]:
    return msgspec.json.encode if format_ is Format.JSON else msgspec.msgpack.encode


class _Raw:
    """The bytes as they are."""

    def __init__(self, at: int) -> None:
        self._at = at

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(self._at).cast(pa.binary())


class _Objects:
    """An object of the remaining columns."""

    def __init__(self, layout: Layout, write: Callable[[Any], bytes]) -> None:
        self._at = list(layout.fields)
        self._write = write

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        rows = batch.select(self._at).to_pylist(maps_as_pydicts="strict")
        return pa.array(map(self._write, rows), pa.binary(), size=len(rows))


class _Whole:
    """One column: text is JSON already, anything else becomes it."""

    def __init__(self, at: int, key: int, options: Options) -> None:
        self._at = at
        self._key = key
        self._options = options
        self._write = _writer(options.format)

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(self._at)
        if not pa.types.is_string(column.type):
            values = column.to_pylist(maps_as_pydicts="strict")
            found = [None if each is None else self._write(each) for each in values]
            return pa.array(found, pa.binary())
        texts = column.to_pylist()
        found = [
            None if text is None else self._of_text(text, batch, at)
            for at, text in enumerate(texts)
        ]
        return pa.array(found, pa.binary())

    def _of_text(self, text: str, batch: pa.RecordBatch, at: int) -> bytes:
        try:
            read = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            key = batch.column(self._key)[at].as_py()
            what = f"map '{self._options.map}': key {key!r}: the value is no JSON: {error}"
            raise RowRefused(what) from None
        return text.encode() if self._options.format is Format.JSON else self._write(read)
