"""Jobs: what many tasks write is laid aside in the partitions that it is for, and shown at once.

Rules (`design/7` "batch write"; `design/3` §4)
-----------------------------------------------
* What a task wants to write in a partition comes in *blocks*, and is kept in that very partition,
  in a fragment that no key of an application can be in (`STAGING`). So it is replicated, moves,
  survives its owner and is written to disk as everything else; there is no second way.
* A block belongs to (job, task, attempt, number). The same block twice is one block. Attempts of a
  task don't see each other; the job says at its end which of them counts.
* A job has a *mark* in each partition that it came to, with a time to live. Each block renews it.
  When it ends, the blocks go: nobody has to clean up after a driver that died.
* *Publishing* is decided once for the whole of a partition: every block that the job says counts
  has to be there, else nothing is changed. From then on it can't fail any more: a block at a time
  is carried out and goes, in one step with what it writes, and the owner goes on by itself if
  nobody asks it to (`go_on`).
* A mark stays behind, and says that the job is over: what comes late changes nothing.
* *Replace* removes what is there of the name in the step that decides. *Append* writes over it.

States
------
                    a block                 decided                 the last block
    (no mark) ────────────────► STAGING ──────────────► PUBLISHING ────────────────► PUBLISHED
        │  ▲                     │    │ time is up
        │  └─────────────────────┼────┘
        └───────► DISCARDED ◄────┘  discard; late blocks are refused until its mark ends

What can go wrong
-----------------
*A key that is to be written is locked by a session, or its name is full.* Nothing of its block is
done; it is tried again. *The owner dies while it publishes.* The mark and the blocks that are left
are at its backup, exactly as far as it came. *The job's driver dies between two partitions.* Some
are published, the others forget in time; who publishes the same job again before that makes it
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from heapq import heappop, heappush
from typing import Final, NamedTuple

from holdfast.core.stores.access import check_lock, live
from holdfast.core.stores.command import Call
from holdfast.core.stores.eviction import check_key, make_room
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.packing import pack, unpack
from holdfast.core.stores.plain import VALUE_BYTES_MAX
from holdfast.core.stores.record import (
    FLAGS_AT,
    NO_FLAGS,
    PLAIN_AT,
    Kind,
    body_of,
    expiry_of,
    kind_of,
)
from holdfast.core.stores.space import DEFAULT, STAGING, Space, name_of
from holdfast.core.stores.strings import keep_string
from holdfast.errors import CommandError, MessageError

LIFE_MS_MAX: Final = 7 * 24 * 3_600_000
ID_BYTES_MAX: Final = 128
BLOCK_ROWS_MAX: Final = 8_192
GO_ON_MS: Final = 500
"""So long after the last step of publishing its owner goes on by itself."""
BLOCKS_MAX: Final = 4_096
"""Of one partition, whatever jobs they are of."""

CHANGED: Final = 0xE0
"""Flags that no row of a block has."""

OVER: Final = "JOBOVER the job is {} in this partition; begin another one"
LACKING: Final = (
    "NOTSTAGED {} of {} blocks of the job are not in this partition any more, or never came;"
    " nothing of it was changed here"
)
TOO_LATE: Final = "JOBOVER the job is {} in this partition: it can't be taken back"
NO_ROOM: Final = f"OOM a partition keeps at most {BLOCKS_MAX} blocks of unfinished jobs"
NO_ROWS: Final = "ERR a block has 1 to {} rows of strings, or of keys that go"
NOT_OF_NAME: Final = "ERR a key of the block is not of this name"
BAD_LIFE: Final = f"ERR a job lives 1 to {LIFE_MS_MAX} ms after its last block"
BAD_ID: Final = f"ERR the id of a job or task has 1 to {ID_BYTES_MAX} bytes"


class State(Enum):
    """Where a job is in one partition; the value is how a mark says it."""

    STAGING = b"s"
    PUBLISHING = b"p"
    PUBLISHED = b"d"
    DISCARDED = b"x"

    @property
    def word(self) -> str:
        """For people."""
        return self.name.lower()


class Mode(Enum):
    """What becomes of what is there of the name."""

    APPEND = b"append"
    REPLACE = b"replace"


class BlockId(NamedTuple):
    """Which block of a job."""

    task: bytes
    attempt: bytes
    number: int


class Winner(NamedTuple):
    """An attempt that counts, and how many blocks it has in this partition."""

    task: bytes
    attempt: bytes
    blocks: int


class Mark(NamedTuple):
    """What is known of a job in a partition."""

    state: State
    life_ms: int
    name: bytes = b""
    winners: tuple[Winner, ...] = ()
    """Of one that is being published."""


# Blocks -------------------------------------------------------------------------------------------


def stage(
    space: Space, call: Call, job: bytes, block: BlockId, name: bytes, life_ms: int, rows: bytes
) -> None:
    """Keep a block; the same one again changes nothing."""
    _check_ids(job, block.task, block.attempt)
    _check_life(life_ms)
    fragment = space.named(STAGING)
    mark = mark_of(fragment, call, job)
    if mark is not None and mark.state is not State.STAGING:
        raise CommandError(OVER.format(mark.state.word))
    key, body = _block_key(job, block), pack((name, rows))
    held = fragment.records.get(key)
    if held is None and len(fragment) >= BLOCKS_MAX:
        raise CommandError(NO_ROOM)
    if not isinstance(held, bytes) or body_of(held) != body:
        fragment.put(key, body)
    _put_mark(fragment, call, job, Mark(State.STAGING, life_ms))


def rows_of(packed: bytes, name: bytes) -> list[tuple[bytes, bytes]]:
    """Keys and records of a block; what can't be written so is refused."""
    try:
        items = unpack(packed)
        keys, records = items[::2], items[1::2]
        rows = list(zip(keys, records, strict=True))
        fits = bool(rows) and _are_writable(records)
    except (MessageError, ValueError):
        keys, rows, fits = [], [], False
    if not fits or len(rows) > BLOCK_ROWS_MAX:
        raise CommandError(NO_ROWS.format(BLOCK_ROWS_MAX))
    check_key(max(keys, key=len))
    if not _are_of(name, keys):
        raise CommandError(NOT_OF_NAME)
    return rows


def _are_writable(records: Sequence[bytes]) -> bool:
    """Whether all are strings, or say that a key goes; most blocks have plain strings alone."""
    plain = {each[FLAGS_AT:PLAIN_AT] for each in records} == {NO_FLAGS}
    fits = max(map(len, records)) - FLAGS_AT <= VALUE_BYTES_MAX
    return fits and (plain or all(map(_is_writable, records)))


def _is_writable(record: bytes) -> bool:
    if len(record) <= FLAGS_AT or kind_of(record) not in (Kind.STRING, Kind.GONE):
        return False
    expiry_of(record)
    return not record[FLAGS_AT] & CHANGED


def _are_of(name: bytes, keys: Sequence[bytes]) -> bool:
    if name == DEFAULT:
        return all(name_of(key) == name for key in keys)
    prefix = name + b":"
    return all(key.startswith(prefix) for key in keys)


# Publishing ---------------------------------------------------------------------------------------


def check(space: Space, call: Call, job: bytes, winners: Sequence[Winner], life_ms: int) -> None:
    """Whether everything that counts is here; it lives on for so long."""
    _check_ids(job)
    _check_life(life_ms)
    fragment = space.named(STAGING)
    mark = mark_of(fragment, call, job)
    if mark is not None and mark.state is State.DISCARDED:
        raise CommandError(OVER.format(mark.state.word))
    if mark is None or mark.state is State.STAGING:
        wanted = list(_block_keys(job, winners))
        missing = sum(mark is None or key not in fragment.records for key in wanted)
        if missing:
            raise CommandError(LACKING.format(missing, len(wanted)))
        _put_mark(fragment, call, job, Mark(State.STAGING, life_ms))


def publish(
    space: Space,
    call: Call,
    job: bytes,
    name: bytes,
    mode: Mode,
    winners: Sequence[Winner],
    life_ms: int,
) -> tuple[State, list[bytes]]:
    """One step towards the end: what the job is then, and the keys that were written."""
    check(space, call, job, winners, life_ms)
    fragment = space.named(STAGING)
    mark = mark_of(fragment, call, job)
    assert mark is not None, "a job without a mark has no blocks here"
    if mark.state is not State.STAGING:
        return advance(space, call, job)
    gone = _replaced(space, call, name) if mode is Mode.REPLACE else []
    counting = frozenset(_block_keys(job, winners))
    for key in [key for key in blocks_of(fragment, job) if key not in counting]:
        fragment.remove(key)
    mark = Mark(State.PUBLISHING, mark.life_ms, name, tuple(winners))
    _put_mark(fragment, call, job, mark)
    state, keys = advance(space, call, job)
    return state, gone + keys


def advance(space: Space, call: Call, job: bytes) -> tuple[State, list[bytes]]:
    """The next block of a job that is being published; the keys that were written."""
    fragment = space.named(STAGING)
    mark = mark_of(fragment, call, job)
    assert mark is not None, "it is being published"
    keys: list[bytes] = []
    left = (key for key in _block_keys(job, mark.winners) if key in fragment.records)
    block = next(left, None)
    if block is not None:
        record = fragment.records[block]
        assert isinstance(record, bytes), "blocks are strings"
        _, rows = unpack(body_of(record))
        items = unpack(rows)
        keys = _carry_out(space, call, list(zip(items[::2], items[1::2], strict=True)))
        fragment.remove(block)
    if mark.state is State.PUBLISHING:
        over = next(left, None) is None
        mark = mark._replace(state=State.PUBLISHED, winners=()) if over else mark
        _put_mark(fragment, call, job, mark)
    return mark.state, keys


def _replaced(space: Space, call: Call, name: bytes) -> list[bytes]:
    """Remove everything of a name, unless one of its keys is locked; the keys that went."""
    fragment, internal = space.fragments.get(name), space.internal
    listed = [key for key in internal.records if name_of(key) == name]
    crowd = space.fragments.get(DEFAULT) if space.crowded else None
    foreign = [] if crowd is None else [key for key in crowd.records if name_of(key) == name]
    own = [] if fragment is None or fragment is crowd else list(fragment.records)
    for key in (*listed, *foreign, *own):
        check_lock(space, call, key)
    for key in listed:
        internal.remove(key)
    for key in foreign:
        assert crowd is not None, "they were found in it"
        crowd.remove(key)
    if own and fragment is not None:
        fragment.clear()
    return [*listed, *foreign, *own]


def _carry_out(space: Space, call: Call, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """Write the rows of a block, all of them or, if a key is locked, none. They are of one name,
    and so of one fragment."""
    keys = [key for key, _ in rows]
    fragment = space.look(keys[0])
    if fragment is not None and fragment.locks:
        for key in keys:
            check_lock(space, call, key)
    coming = dict.fromkeys(key for key, record in rows if not _goes(call, record))
    if coming:
        make_room(space.home(keys[0]), call, coming)
    for key, record in rows:
        if record[FLAGS_AT:PLAIN_AT] == NO_FLAGS:
            keep_string(space, call, key, record[PLAIN_AT:])
        elif _goes(call, record):
            found = live(space, call, key)
            if found is not None:
                found[0].remove(key)
        else:
            keep_string(space, call, key, body_of(record), expiry_of(record))
    return keys


def _goes(call: Call, record: bytes) -> bool:
    """Whether nothing is at its key afterwards."""
    if record[FLAGS_AT:PLAIN_AT] == NO_FLAGS:
        return False
    return kind_of(record) is Kind.GONE or 0 < expiry_of(record) <= call.now


def discard(space: Space, call: Call, job: bytes, life_ms: int) -> None:
    """Have nothing of a job any more; late blocks are refused for so long."""
    _check_ids(job)
    _check_life(life_ms)
    fragment = space.named(STAGING)
    mark = mark_of(fragment, call, job)
    if mark is not None and mark.state in (State.PUBLISHING, State.PUBLISHED):
        raise CommandError(TOO_LATE.format(mark.state.word))
    for key in blocks_of(fragment, job):
        fragment.remove(key)
    _put_mark(fragment, call, job, Mark(State.DISCARDED, life_ms))


# By itself ----------------------------------------------------------------------------------------


def go_on(space: Space, call: Call) -> None:
    """What the owner does without being asked: publish on, and forget what nobody came back to."""
    fragment = space.fragments.get(STAGING)
    if fragment is None or not fragment.expiring or fragment.expiring[0][0] > call.now:
        return
    while fragment.expiring and fragment.expiring[0][0] <= call.now:
        heappop(fragment.expiring)
    nobody = replace(call, session=b"")
    for job in [job for job, mark in _marks(fragment, call) if mark.state is State.PUBLISHING]:
        try:
            advance(space, nobody, job)
        except CommandError:  # a key is locked: tried again
            heappush(fragment.expiring, (call.now + GO_ON_MS, pack((job,))))
    living = frozenset(job for job, _ in _marks(fragment, call))
    for key in list(fragment.records):
        if _job_of(key) not in living:
            fragment.remove(key)


def is_half_published(space: Space, call: Call, name: bytes) -> bool:
    """Whether a reader of this name would see a part of a job."""
    fragment = space.fragments.get(STAGING)
    if fragment is None:
        return False
    return any(
        mark.state is State.PUBLISHING and mark.name == name for _, mark in _marks(fragment, call)
    )


# Keys and marks -----------------------------------------------------------------------------------


def blocks_of(fragment: Fragment, job: bytes) -> list[bytes]:
    """The keys of all blocks of a job."""
    start = pack((job,))
    return [key for key in fragment.records if key.startswith(start) and key != start]


def mark_of(fragment: Fragment, call: Call, job: bytes) -> Mark | None:
    """What is known of a job; None when nothing is, or its time is up."""
    record = fragment.records.get(pack((job,)))
    if not isinstance(record, bytes):
        return None
    mark = _read_mark(body_of(record))
    return None if expiry_of(record) <= call.now and mark.state is not State.PUBLISHING else mark


def _marks(fragment: Fragment, call: Call) -> Iterator[tuple[bytes, Mark]]:
    for job in dict.fromkeys(map(_job_of, fragment.records)):
        mark = mark_of(fragment, call, job)
        if mark is not None:
            yield job, mark


def _put_mark(fragment: Fragment, call: Call, job: bytes, mark: Mark) -> None:
    """One that is being published does not end before it is: its time is that of the next look."""
    body = pack(
        (
            mark.state.value,
            b"%d" % mark.life_ms,
            mark.name,
            *(part for each in mark.winners for part in (*each[:2], b"%d" % each.blocks)),
        )
    )
    life = GO_ON_MS if mark.state is State.PUBLISHING else mark.life_ms
    fragment.put(pack((job,)), body, call.now + life)


def _read_mark(body: bytes) -> Mark:
    state, life, name, *rest = unpack(body)
    winners = tuple(
        Winner(task, attempt, int(blocks))
        for task, attempt, blocks in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    )
    return Mark(State(state), int(life), name, winners)


def _block_key(job: bytes, block: BlockId) -> bytes:
    return pack((job, block.task, block.attempt, b"%d" % block.number))


def _block_keys(job: bytes, winners: Sequence[Winner]) -> Iterator[bytes]:
    """In the order in which they are carried out: of two rows with one key the later one stays."""
    for task, attempt, blocks in winners:
        for number in range(blocks):
            yield _block_key(job, BlockId(task, attempt, number))


def _job_of(key: bytes) -> bytes:
    return unpack(key)[0]


def _check_life(life_ms: int) -> None:
    if not 0 < life_ms <= LIFE_MS_MAX:
        raise CommandError(BAD_LIFE)


def _check_ids(*ids: bytes) -> None:
    if not all(0 < len(each) <= ID_BYTES_MAX for each in ids):
        raise CommandError(BAD_ID)
