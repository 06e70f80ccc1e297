"""HOLDFAST.BULK: whole partitions of a name, read at one moment, written as one job, or followed.

Rules (`design/7`; `design/4` "bulk blocks in and out")
-------------------------------------------------------
* Only the owner answers, under the same lease, table and state as for any command; who is not the
  owner says who is. Nothing is passed on: what is large goes to its owner by the shortest way.
* COPIES and COPY are about copies, whoever has them (`front.copies`).
* OPEN takes a snapshot (`stores.snapshot`). Its session is told the cut when everything in it is
  safe on the backups, and reads on from memory (`Front.snapshot`), even if the partition moves
  meanwhile. One for each session; it ends with CLOSE, or with its session.
* TAIL reads the journal from a point on. What is not kept any more is a `GAP`, never an empty page.
* STAGE, CHECK, PUBLISH and DISCARD are the steps of a job (`stores.staging`). Each may be said
  again at any time: the answer is then what it would have been.
* Only STAGE is refused where memory is full: what is published was counted when it was laid aside.
* A step carries out one block at the most, so that the clients of the member wait for that and no
  longer; whoever asks asks again until it is told that the job is published.

States
------
Of a session: whether it has a snapshot open. Of a job: those of `stores.staging`.

What can go wrong
-----------------
*A job is half published here.* A snapshot would show a part of it: OPEN is refused until it is
whole, which the owner sees to. *Too many snapshots.* Each holds what it has seen; the next reader
is asked to come again. *The reply is lost.* Say it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from holdfast.core.data.copies import Holding
from holdfast.core.data.journal import Gap, Page
from holdfast.core.data.plane import Act, Elsewhere
from holdfast.core.data.sessions import Session
from holdfast.core.data.vectors import Point
from holdfast.core.front.asides import Aside, Subcommand, choose
from holdfast.core.front.copies import COPIES
from holdfast.core.front.reading import hold, let_go, partition_in, point_of, text_of
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.stores import staging
from holdfast.core.stores.command import SYNTAX, Blocked, Call, Trait
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.packing import pack, unpack
from holdfast.core.stores.record import Kind, kind_of
from holdfast.core.stores.replies import OK, array, bulk, integer, simple
from holdfast.core.stores.snapshot import Snapshot
from holdfast.core.stores.space import DEFAULT, Space, name_of
from holdfast.core.stores.staging import BlockId, Mode, Winner
from holdfast.errors import CommandError, MessageError

ENTRIES_MAX: Final = 8_192
BLOCKS_OF_A_TASK_MAX: Final = staging.BLOCKS_MAX

NO_NAME: Final = "ERR a name has at least one byte and no colon"
HALF: Final = "TRYAGAIN a job is being published in this partition; read it when it is whole"
GAP: Final = "GAP the oldest point that can be gone on from is {}"
OTHER_PARTITION: Final = "ERR a key of the block is not in this partition"
OLDEST: Final = b"OLDEST"
NEWEST: Final = b"NEWEST"


# Reading ------------------------------------------------------------------------------------------


def fragment_of(space: Space, name: bytes) -> tuple[Fragment | None, bool]:
    """Where the keys of a name are, and whether others are among them."""
    fragment = space.fragments.get(name)
    if fragment is None and space.crowded:
        fragment = space.fragments[DEFAULT]
    return fragment, space.crowded and fragment is not None and fragment.name == DEFAULT


def open_snapshot(around: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """OPEN partition name: take a snapshot; its cut, and how many records it has at most."""
    name = named(args[3])

    def act(holding: Holding, call: Call) -> tuple[bytes, Sequence[bytes]]:
        space = holding.space
        if staging.is_half_published(space, call, name):
            raise CommandError(HALF)
        fragment, crowded = fragment_of(space, name)
        if fragment is None:
            let_go(around, session.number)
            return array([bulk(text_of(Point(holding.generation, 0))), integer(0)]), ()
        wanted = (lambda key: name_of(key) == name) if crowded else None
        taken = partial(Snapshot, fragment, call.now, wanted)
        snapshot = hold(around, session.number, taken)
        cut = Point(snapshot.epoch, snapshot.counter)
        return array([bulk(text_of(cut)), integer(len(snapshot))]), ()

    return on_whole(around, args, Trait.READ, act)


def close_snapshot(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """CLOSE: hold no snapshot any more."""
    let_go(around, session.number)
    return OK


def tail(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """TAIL partition name point|OLDEST|NEWEST count: changes after a point, and the next point."""
    name, count = named(args[3]), parse_integer(args[5])
    word = args[4].upper()
    after = None if word in (OLDEST, NEWEST) else point_of(args[4])
    if not 0 < count <= ENTRIES_MAX:
        raise CommandError(SYNTAX)

    def act(holding: Holding, _: Call) -> tuple[bytes, Sequence[bytes]]:
        fragment, _crowded = fragment_of(holding.space, name)
        found_in = b"" if fragment is None else fragment.name
        holding.following.note(found_in or name, around.context.now)
        page = read_journal(holding, found_in, after, word, count)
        if isinstance(page, Gap):
            raise CommandError(GAP.format(text_of(page.first_available).decode()))
        found = [
            part
            for each in page.entries
            if not each.key or (name_of(each.key) == name and kind_of(each.payload) != Kind.LOCK)
            for part in (each.key, each.payload)
        ]
        return array([bulk(text_of(page.after)), bulk(pack(found))]), ()

    return on_whole(around, args, Trait.READ, act)


def read_journal(
    holding: Holding, fragment: bytes, after: Point | None, word: bytes, count: int
) -> Page | Gap:
    """Of a fragment; of one that nobody has written to, which is empty from its beginning on."""
    copy = holding.copies.get(fragment) if fragment else None
    if copy is None:
        begun = Point(holding.generation, 0)
        return Page((), begun) if after in (None, begun) else Gap(begun)
    if after is None:
        if word == NEWEST:
            return Page((), copy.journal.last)
        after = copy.journal.oldest
    return copy.journal.read(after, count)


# Writing ------------------------------------------------------------------------------------------


def stage(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """STAGE partition name job task attempt number life_ms rows: lay a block aside."""
    name, job, task, attempt, rows = named(args[3]), *args[4:7], args[9]
    number, life_ms = parse_integer(args[7]), parse_integer(args[8])
    if not 0 <= number < BLOCKS_OF_A_TASK_MAX:
        raise CommandError(SYNTAX)
    partition = partition_in(around, args)
    partition_of = around.data.plane.partition_of
    if any(partition_of(key) != partition for key, _ in staging.rows_of(rows, name)):
        raise CommandError(OTHER_PARTITION)

    def act(holding: Holding, call: Call) -> tuple[bytes, Sequence[bytes]]:
        block = BlockId(task, attempt, number)
        staging.stage(holding.space, call, job, block, name, life_ms, rows)
        return OK, ()

    return on_whole(around, args, Trait.WRITE | Trait.GROWS, act)


def check(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """CHECK partition job life_ms winners: whether all that counts is here, for so long."""
    job, life_ms, winners = args[3], parse_integer(args[4]), winners_of(args[5])

    def act(holding: Holding, call: Call) -> tuple[bytes, Sequence[bytes]]:
        staging.check(holding.space, call, job, winners, life_ms)
        return OK, ()

    return on_whole(around, args, Trait.WRITE, act)


def publish(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """PUBLISH partition name job mode life_ms winners: one step; the state of the job then."""
    name, job, life_ms = named(args[3]), args[4], parse_integer(args[6])
    mode, winners = mode_of(args[5]), winners_of(args[7])

    def act(holding: Holding, call: Call) -> tuple[bytes, Sequence[bytes]]:
        state, keys = staging.publish(holding.space, call, job, name, mode, winners, life_ms)
        return simple(state.word), keys

    return on_whole(around, args, Trait.WRITE, act)


def discard(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """DISCARD partition job life_ms: have nothing of a job; late blocks are refused for so long."""
    job, life_ms = args[3], parse_integer(args[4])

    def act(holding: Holding, call: Call) -> tuple[bytes, Sequence[bytes]]:
        staging.discard(holding.space, call, job, life_ms)
        return OK, ()

    return on_whole(around, args, Trait.WRITE, act)


def mode_of(text: bytes) -> Mode:
    """By its word."""
    try:
        return Mode(text.lower())
    except ValueError:
        raise CommandError(SYNTAX) from None


def winners_of(packed: bytes) -> tuple[Winner, ...]:
    """Task, attempt and count of blocks, again and again."""
    try:
        items = unpack(packed)
        winners = tuple(
            Winner(task, attempt, parse_integer(blocks))
            for task, attempt, blocks in zip(items[::3], items[1::3], items[2::3], strict=True)
        )
    except (MessageError, ValueError):
        raise CommandError(SYNTAX) from None
    if any(each.blocks < 1 for each in winners) or (
        sum(each.blocks for each in winners) > staging.BLOCKS_MAX
    ):
        raise CommandError(SYNTAX)
    return winners


# All of them --------------------------------------------------------------------------------------


def on_whole(around: Surroundings, args: list[bytes], traits: Trait, act: Act) -> bytes:
    """Act in the partition, if it is mine; this client is told who else it is."""
    try:
        return around.data.plane.on_whole(partition_in(around, args), traits, act, around.ticket)
    except Elsewhere as refusal:
        raise CommandError(refusal.message) from None


def named(name: bytes) -> bytes:
    """A name as keys have it."""
    if not name or b":" in name:
        raise CommandError(NO_NAME)
    return name


BULK: Final[Mapping[bytes, Subcommand[Surroundings]]] = {
    b"OPEN": (4, open_snapshot),
    b"CLOSE": (2, close_snapshot),
    b"TAIL": (6, tail),
    b"STAGE": (10, stage),
    b"CHECK": (6, check),
    b"PUBLISH": (8, publish),
    b"DISCARD": (5, discard),
    **COPIES,
}


def bulk_command(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """HOLDFAST.BULK subcommand: whole partitions of a name, read, followed, written as jobs."""
    return choose("HOLDFAST.BULK", BULK, around, session, args)


COMMANDS: Final = (
    Aside("HOLDFAST.BULK", -2, Trait(0), bulk_command, in_multi=False, subcommands=BULK),
)
