"""Blocks of rows as Arrow batches, without an object for a row where nothing has to be decoded.

Rules
-----
* Keys, values and versions are slices of the block as it came (`wire.rows`); only offsets and what
  is filtered are made anew.
* Filters on what is no value come before anything is decoded, and the others after it.
* A row whose value can't be decoded, or is no string (a hash, a set ...), is an error, or null, or
  left out and counted: `undecodable` says which.
* Small blocks are put together until a batch has about `batch_bytes`; one block is never torn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.wire.rows import Rows
from holdfast_spark.decoding import Decoder
from holdfast_spark.errors import SchemaError, ValueUndecodable
from holdfast_spark.options import Format, Keys, Options, Undecodable
from holdfast_spark.planning.filters import Condition, split
from holdfast_spark.planning.shape import Role, Shape

STRING: Final = 0
GONE: Final = 5
EMPTIED: Final = 6
CHANGE: Final = 0x20
VERSION_BYTES: Final = 10
NUMBER_BYTES: Final = 6
KEY_BYTES_MAX: Final = (1 << 31) - 1
CHANGES: Final = ("written", "deleted", "emptied")


@dataclass(slots=True)
class Counts:
    """What a task did, for its log."""

    rows: int = 0
    undecodable: int = 0
    first: str = ""
    """The first of those."""

    def add(self, count: int, first: str) -> None:
        """So many more that could not be decoded."""
        if count:
            self.undecodable += count
            self.first = self.first or first


@dataclass(slots=True)
class Batches:
    """Makes batches of one shape."""

    shape: Shape
    options: Options
    schema: pa.Schema
    conditions: Sequence[Condition] = ()
    until: int | None = None
    """The number of the last change that counts."""
    counts: Counts = field(default_factory=Counts)
    _decoder: Decoder | None = None
    _early: list[Condition] = field(default_factory=list)
    _late: list[Condition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._early, self._late = split(self.conditions, self.shape)
        if self.options.format is not Format.RAW and self.shape.needs_values:
            self._decoder = Decoder(self.shape, self.options.format, self.schema)

    def of(self, blocks: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
        """Batches of all rows of these blocks."""
        held: list[pa.RecordBatch] = []
        size = 0
        for rows in blocks:
            if not rows.count:
                continue
            made = self.one(rows)
            if not made.num_rows:
                continue
            held.append(made)
            size += made.get_total_buffer_size() if len(held) == 1 else len(rows.data)
            if size >= self.options.batch_bytes:
                yield _joined(held)
                held, size = [], 0
        if held:
            yield _joined(held)

    def one(self, rows: Rows) -> pa.RecordBatch:
        """The batch of one block."""
        kinds = np.frombuffer(rows.column("kinds"), np.uint8)
        keys = _binary(rows, "key_offsets", "keys")
        values = _binary(rows, "value_offsets", "values")
        columns = self._plain(rows, keys, kinds)
        kept = self._kept(columns, self._early)
        if self.until is not None:
            kept = _not_after(rows, self.until)
        if kept is not None:
            columns = {name: each.filter(kept) for name, each in columns.items()}
            values, keys = values.filter(kept), keys.filter(kept)
            kinds = kinds[np.asarray(kept)]
        if self.shape.needs_values or (kinds != STRING).any():
            columns = self._with_values(columns, keys, values, kinds)
        kept = self._kept(columns, self._late)
        if kept is not None:
            columns = {name: each.filter(kept) for name, each in columns.items()}
        arrays = [columns[each.name] for each in self.shape.columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self.counts.rows += batch.num_rows
        return batch

    # Columns ------------------------------------------------------------------------------------

    def _plain(self, rows: Rows, keys: pa.Array, kinds: np.ndarray) -> dict[str, pa.Array]:
        """What is made without looking at a value."""
        found: dict[str, pa.Array] = {}
        for column in self.shape.columns:
            if column.role is Role.KEY:
                found[column.name] = self._shown_keys(keys, column.type)
            elif column.role is Role.VERSION:
                found[column.name] = _versions(rows)
            elif column.role is Role.EXPIRES:
                found[column.name] = _expiries(rows, self.schema.field(column.name).type)
            elif column.role is Role.PARTITION:
                here = np.full(rows.count, rows.about.partition, np.int32)
                found[column.name] = pa.array(here)
            elif column.role is Role.CHANGE:
                which = np.select([kinds == GONE, kinds == EMPTIED], [1, 2], 0).astype(np.int8)
                words = pa.DictionaryArray.from_arrays(pa.array(which), pa.array(CHANGES))
                found[column.name] = words.cast(pa.string())
        return found

    def _shown_keys(self, keys: pa.Array, kind: str) -> pa.Array:
        short = self.options.keys is Keys.SHORT
        keys = _without(keys, len(self.options.map.encode()) + 1 if short else 0)
        if kind == "binary":
            return keys
        try:
            shown = keys.view(pa.string())
            shown.validate(full=True)
        except pa.ArrowInvalid:
            what = "has keys that are no UTF-8: declare the column 'key' as binary"
            raise SchemaError(f"map '{self.options.map}' {what}") from None
        return shown

    def _with_values(
        self, columns: dict[str, pa.Array], keys: pa.Array, values: pa.Array, kinds: np.ndarray
    ) -> dict[str, pa.Array]:
        """Everything, and only rows that stay."""
        decoded, reasons = self._decoded(values, kinds)
        columns = columns | decoded
        bad = [at for at, reason in enumerate(reasons) if reason]
        if bad:
            first = f"{keys[bad[0]].as_py()!r}: {reasons[bad[0]]}"
            if self.options.undecodable is Undecodable.FAIL:
                raise ValueUndecodable(
                    f"map '{self.options.map}': key {first}; option 'undecodable' says what becomes"
                    " of such values: fail, null or skip"
                )
            self.counts.add(len(bad), first)
        for column in self.shape.columns:
            if column.role is Role.PROBLEM:
                columns[column.name] = pa.array(reasons or [None] * len(keys), pa.string())
        if bad and self.options.undecodable is Undecodable.SKIP:
            kept = pa.array([not reason for reason in reasons])
            columns = {name: each.filter(kept) for name, each in columns.items()}
        return columns

    def _decoded(
        self, values: pa.Array, kinds: np.ndarray
    ) -> tuple[dict[str, pa.Array], list[str | None]]:
        """The columns that are made of values; why some could not be, or nothing if all could."""
        reasons: list[str | None] = []
        is_value = kinds == STRING
        if not is_value.all():
            absent = (kinds == GONE) | (kinds == EMPTIED)
            reasons = [
                None if fine or gone else f"it is a {_kind_name(kind)}, and no string"
                for fine, gone, kind in zip(is_value, absent, kinds, strict=True)
            ]
            values = pc.if_else(pa.array(is_value), values, pa.scalar(None, pa.binary()))
        if self._decoder is not None:
            found, more = self._decoder.decode(values.to_pylist())
            if more is not None:
                reasons = [one or two for one, two in zip(reasons or more, more, strict=True)]
            return found, reasons
        found = {}
        for column in self.shape.columns:
            if column.role is Role.VALUE:
                found[column.name] = values
                if column.type == "string":
                    found[column.name], reasons = _texts(values, reasons)
        return found, reasons

    def _kept(
        self, columns: dict[str, pa.Array], conditions: Sequence[Condition]
    ) -> pa.Array | None:
        """Which rows all of these conditions hold for; None when there are none."""
        kept = None
        for each in conditions:
            mask = pc.fill_null(_holds(columns[each.column], each), fill_value=False)
            kept = mask if kept is None else pc.and_(kept, mask)
        return kept


def _holds(column: pa.Array, condition: Condition) -> pa.Array:
    """True, false or unknown for each row."""
    function, value = condition.function, condition.value
    if function == "is_null" or (function == "same" and value is None):
        found = pc.is_null(column)
    elif function == "same":
        found = pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), fill_value=False)
    elif function == "is_in":
        known = [each for each in value if each is not None]
        found = pc.is_in(column, value_set=pa.array(known, column.type))
        unknown = pc.is_null(column) if len(known) == len(value) else pc.invert(found)
        found = pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)
    elif function in ("starts_with", "ends_with", "match_substring"):
        found = getattr(pc, function)(column, value)
    else:
        found = getattr(pc, function)(column, pa.scalar(value, column.type))
    return pc.invert(found) if condition.negated else found


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _slice(rows: Rows, name: str) -> pa.Buffer:
    """A column of the block, where it stands."""
    column = rows.column(name)
    return pa.py_buffer(rows.data).slice(getattr(rows.sizes, name), len(column))


def _binary(rows: Rows, offsets: str, data: str) -> pa.Array:
    buffers = [None, _slice(rows, offsets), _slice(rows, data)]
    return pa.Array.from_buffers(pa.binary(), rows.count, buffers)


def _without(keys: pa.Array, length: int) -> pa.Array:
    """Keys without what all of them begin with; an empty one is none."""
    shorter = pc.binary_slice(keys, length, KEY_BYTES_MAX) if length else keys
    empty = pc.equal(pc.binary_length(keys), 0)
    if pc.any(empty).as_py():
        return pc.if_else(empty, pa.scalar(None, pa.binary()), shorter)
    return shorter


def _versions(rows: Rows) -> pa.Array:
    offsets = np.arange(rows.count + 1, dtype=np.int32) * np.int32(VERSION_BYTES)
    buffers = [None, pa.py_buffer(offsets), _slice(rows, "versions")]
    return pa.Array.from_buffers(pa.binary(), rows.count, buffers)


def _not_after(rows: Rows, number: int) -> pa.Array:
    """Which rows have no later version: numbers go on over epochs."""
    parts = np.frombuffer(rows.column("versions"), np.uint8).reshape(-1, VERSION_BYTES)
    padded = np.zeros((rows.count, 8), np.uint8)
    padded[:, 8 - NUMBER_BYTES :] = parts[:, VERSION_BYTES - NUMBER_BYTES :]
    return pa.array(padded.view(">u8").ravel() <= number)


def _expiries(rows: Rows, kind: pa.DataType) -> pa.Array:
    millis = np.frombuffer(rows.column("expiries"), np.int64)
    if not millis.any():
        return pa.nulls(rows.count, kind)
    scaled = millis if pa.types.is_int64(kind) else millis * 1_000
    valid = pa.py_buffer(np.packbits(millis != 0, bitorder="little"))
    return pa.Array.from_buffers(kind, rows.count, [valid, pa.py_buffer(scaled)])


def _texts(values: pa.Array, reasons: list[str | None]) -> tuple[pa.Array, list[str | None]]:
    """Bytes as text, if they are."""
    found = values.view(pa.string())
    try:
        found.validate(full=True)
    except pa.ArrowInvalid:
        texts, reasons = [], reasons or [None] * len(values)
        for at, value in enumerate(values.to_pylist()):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                reasons[at] = str(error)
        return pa.array(texts, pa.string()), reasons
    return found, reasons


def _kind_name(kind: Any) -> str:
    return {1: "set", 2: "hash", 3: "list"}.get(int(kind) & ~CHANGE, f"kind {int(kind)}")
