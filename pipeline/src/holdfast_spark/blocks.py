"""Arrow batches as blocks of rows for the partitions that they belong to.

Rows are gathered, sorted by partition without changing their order within one, and cut into blocks
of about `BLOCK_BYTES`. What is null, too long or of another type is refused with its key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.wire.rows import About, join
from holdfast_spark.errors import RowRefused
from holdfast_spark.options import Keys, Options
from holdfast_spark.planning.columns import Layout
from holdfast_spark.values import encoder

BLOCK_BYTES: Final = 256 << 10
BLOCK_ROWS: Final = 4_096
GATHER_BYTES: Final = 32 << 20
"""Over 271 partitions that is a block of 120 KiB for each."""
STRING: Final = 0
GONE: Final = 5
VERSION_BYTES: Final = 10

Make = Callable[[About], bytes]


@dataclass(slots=True)
class Blocks:
    """Makes blocks of what a task is given."""

    layout: Layout
    options: Options
    partition_of: Callable[[bytes], int]
    now_ms: Callable[[], int] = field(default=lambda: time.time_ns() // 1_000_000)

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Make]]:
        """Blocks, each with its partition, and what makes its bytes."""
        held: list[pa.RecordBatch] = []
        size = 0
        encode = encoder(self.layout, self.options)
        for batch in batches:
            rows = self._rows(batch, encode)
            held.append(rows)
            size += rows.nbytes
            if size >= GATHER_BYTES:
                yield from self._cut(held)
                held, size = [], 0
        if held:
            yield from self._cut(held)

    def _rows(
        self, batch: pa.RecordBatch, encode: Callable[[pa.RecordBatch], pa.Array]
    ) -> pa.RecordBatch:
        """The same rows as the cluster has them: key, value, expiry, kind."""
        keys = self._keys(batch.column(self.layout.key))
        kinds = np.zeros(batch.num_rows, np.uint8)
        gone = pa.scalar(False)
        values = encode(batch)
        if self.layout.delete is not None:
            gone = pc.fill_null(batch.column(self.layout.delete), fill_value=False)
            kinds = np.where(np.asarray(gone), GONE, STRING).astype(np.uint8)
            values = pc.if_else(gone, pa.scalar(b""), values)
        if values.null_count:
            at = values.is_null().index(True).as_py()
            raise RowRefused(
                f"map '{self.options.map}': key {keys[at].as_py()!r} has no value; to remove keys,"
                " name a column with option 'delete_column'"
            )
        expiries = self._expiries(batch, keys)
        return pa.RecordBatch.from_arrays(
            [keys, values, pa.array(expiries), pa.array(kinds)],
            names=["key", "value", "expiry", "kind"],
        )

    def _keys(self, column: pa.Array) -> pa.Array:
        name = self.options.map
        if column.null_count:
            raise RowRefused(f"map '{name}': a row has no key")
        prefix = f"{name}:".encode()
        keys = column.cast(pa.binary())
        if self.options.keys is Keys.SHORT:
            return pc.binary_join_element_wise(pa.scalar(prefix), keys, pa.scalar(b""))
        wrong = np.asarray(pc.invert(pc.starts_with(keys, prefix)))
        if name != "default" and wrong.any():
            key = keys[int(wrong.argmax())].as_py()
            raise RowRefused(
                f"map '{name}': {key!r} is no key of it; option 'keys': with full, keys begin with"
                f" {prefix!r}, with short they don't"
            )
        return keys

    def _expiries(self, batch: pa.RecordBatch, keys: pa.Array) -> np.ndarray:
        """When each row ends, in milliseconds since 1970; 0: as the map says."""
        found = np.zeros(batch.num_rows, np.int64)
        if self.layout.expires is not None:
            millis = batch.column(self.layout.expires)
            if pa.types.is_timestamp(millis.type):
                millis = pc.divide(millis.cast(pa.timestamp("us", "UTC")).view(pa.int64()), 1_000)
            found = np.asarray(pc.fill_null(millis.cast(pa.int64()), fill_value=0))
        if self.layout.ttl is not None:
            seconds = batch.column(self.layout.ttl).cast(pa.float64())
            lives = np.asarray(pc.multiply(pc.fill_null(seconds, fill_value=0.0), 1_000.0))
            wrong = (
                (lives < 0) | ~np.isfinite(lives) | ((lives == 0) & np.asarray(seconds.is_valid()))
            )
            if wrong.any():
                at = int(wrong.argmax())
                raise RowRefused(
                    f"map '{self.options.map}': key {keys[at].as_py()!r}: option 'ttl_column':"
                    f" {seconds[at].as_py()} is no time to live"
                )
            found = np.where(lives > 0, self.now_ms() + np.ceil(lives).astype(np.int64), found)
        return found

    # Cutting ------------------------------------------------------------------------------------

    def _cut(self, held: list[pa.RecordBatch]) -> Iterator[tuple[int, Make]]:
        rows = held[0] if len(held) == 1 else pa.concat_batches(held)
        if not rows.num_rows:
            return
        where = np.fromiter(
            map(self.partition_of, rows.column("key").to_pylist()), np.int64, rows.num_rows
        )
        order = np.argsort(where, kind="stable")
        sorted_rows, where = rows.take(pa.array(order)), where[order]
        sizes = _lengths(sorted_rows.column("key")) + _lengths(sorted_rows.column("value"))
        for begin, end in _pieces(where, sizes):
            yield int(where[begin]), partial(_block, sorted_rows.slice(begin, end - begin))


def _lengths(column: pa.Array) -> np.ndarray:
    return np.asarray(pc.binary_length(column), np.int64)


def _pieces(where: np.ndarray, sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Rows of one partition each, not too many and not too large, but at least one."""
    ends = np.append(np.flatnonzero(np.diff(where)) + 1, len(where))
    totals = np.cumsum(sizes)
    begin = 0
    for last in ends:
        while begin < last:
            before = totals[begin - 1] if begin else 0
            fit = int(np.searchsorted(totals, before + BLOCK_BYTES, side="right"))
            end = int(min(last, begin + BLOCK_ROWS, max(fit, begin + 1)))
            yield begin, end
            begin = end


def _block(rows: pa.RecordBatch, about: About) -> bytes:
    keys, key_offsets = _parts(rows.column("key"))
    values, value_offsets = _parts(rows.column("value"))
    count = rows.num_rows
    return join(
        about,
        (
            key_offsets,
            value_offsets,
            np.ascontiguousarray(rows.column("expiry"), np.int64).tobytes(),
            bytes(VERSION_BYTES * count),
            np.ascontiguousarray(rows.column("kind"), np.uint8).tobytes(),
            keys,
            values,
        ),
    )


def _parts(column: pa.Array) -> tuple[memoryview, bytes]:
    """Data and offsets of a column of bytes, from its own beginning on."""
    _, offsets, data = column.buffers()
    numbers = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    begin, end = int(numbers[0]), int(numbers[-1])
    view = memoryview(data)[begin:end] if data is not None else memoryview(b"")
    return view, (numbers - numbers[0]).astype(np.int32).tobytes()
