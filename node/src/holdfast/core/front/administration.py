"""HOLDFAST.*: what an administrator asks of the cluster, as commands.

Rules (`design/4`, "ours"; `design/3` §7 to §9)
-----------------------------------------------
* What changes the cluster is a request (`core.requests`): the session waits until it has its one
  answer, and is told that. Whoever goes before has asked all the same.
* A promotion or demotion is asked of the member that it is about: only that one can carry it out.

States
------
Of a session: its first command is pending until the request is answered.

What can go wrong
-----------------
*The request is refused or its time is up.* The reply is the error's name and what it says.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.data.journal import Gap
from holdfast.core.data.sessions import Pending, Session
from holdfast.core.front.asides import Aside
from holdfast.core.front.forwarding import LATER
from holdfast.core.front.reading import point_of, text_of
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.messages import Ask, Migration, Request
from holdfast.core.participation import Active
from holdfast.core.states import ASKABLE, ClusterState
from holdfast.core.stores.command import SYNTAX, Blocked, Trait
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.replies import OK, array, bulk, bulks, error, integer
from holdfast.core.views import Member
from holdfast.errors import CommandError
from holdfast.ids import Millis, PartitionId

NO_CLUSTER: Final = "CLUSTERDOWN this member is in no cluster"
NO_STATE: Final = f"ERR there is no such state; ask for one of {', '.join(ASKABLE)}"
NOT_ME: Final = "ERR a member is promoted or demoted by asking itself; this one is {}"
NOT_MINE: Final = "ERR this member has nothing of the partition; ask its owner"
ENTRIES_MAX: Final = 10_000


def state(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """HOLDFAST.STATE [state [WAIT ms]]: what the state is, or change it."""
    view = around.context.view
    if view is None:
        raise CommandError(NO_CLUSTER)
    if len(args) == 1:
        return bulk(view.state.encode())
    wanted = args[1].decode(errors="replace").upper()
    if wanted not in ASKABLE:
        raise CommandError(NO_STATE)
    wait_ms = 0
    if len(args) > 2:
        if len(args) != 4 or args[2].upper() != b"WAIT":
            raise CommandError(SYNTAX)
        wait_ms = max(0, parse_integer(args[3]))
    return ask(around, session, Ask.STATE, ClusterState(wanted), wait_ms)


def promote(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """HOLDFAST.PROMOTE [member]: make this lite member a data member."""
    return ask_about_me(around, session, args, Ask.PROMOTE)


def demote(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """HOLDFAST.DEMOTE [member]: make this data member a lite member."""
    return ask_about_me(around, session, args, Ask.DEMOTE)


def ask_about_me(
    around: Surroundings, session: Session, args: list[bytes], what: Ask
) -> bytes | Blocked:
    """Ask for a change of this member's kind."""
    me = around.context.me.id
    if len(args) > 2:
        raise CommandError(SYNTAX)
    if len(args) == 2 and args[1] != me.encode():
        raise CommandError(NOT_ME.format(me))
    return ask(around, session, what, ClusterState.ACTIVE, 0)


def ask(
    around: Surroundings, session: Session, what: Ask, wanted: ClusterState, wait_ms: int
) -> Blocked:
    """Begin a request; the session waits for its answer."""
    context, view = around.context, around.context.view
    around.asked += 1
    level = 0 if view is None else view.level
    request_id = f"{session.owner.decode()}#{around.asked}"
    request = Request(request_id, what, wanted, level, Millis(wait_ms), context.table.stamp)
    pending = session.pending = Pending()
    session.settle()

    def answered(name: str, message: str) -> None:
        pending.reply = OK if not name else error(f"ERR {name}: {message}")
        around.freed(session)

    around.requests.ask(request, answered)
    return LATER


def members(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """HOLDFAST.MEMBERS: who belongs to the cluster, the oldest first."""
    view = around.context.view
    if view is None:
        return array([])
    return array([described(around, session, member) for member in view.members])


def described(around: Surroundings, session: Session, member: Member) -> bytes:
    """One member."""
    view, rows = around.context.view, around.context.table.rows
    master = view is not None and view.master == member.id
    texts = {
        "id": member.id,
        "name": member.name,
        "kind": member.kind,
        "group": member.group,
        "drain": member.drain,
        "address": member.address,
        "plain": member.endpoints.plain,
        "cluster": member.endpoints.cluster,
        "http": member.endpoints.http,
    }
    numbers = {
        "incarnation": member.incarnation,
        "master": int(master),
        "persistent": int(member.persistent),
        "owned": sum(row.owner == member.id for row in rows),
        "backups": sum(member.id in row.replicas[1:] for row in rows),
    }
    told = [
        part for name, text in texts.items() for part in (bulk(name.encode()), bulk(text.encode()))
    ]
    told += [
        part for name, count in numbers.items() for part in (bulk(name.encode()), integer(count))
    ]
    return session.dialect.pairs(told)


def migrations(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """HOLDFAST.MIGRATIONS: those in which this member takes part now."""
    active = around.participation.active.values()
    return array([told_of(session, each) for each in active])


def told_of(session: Session, active: Active) -> bytes:
    """One migration."""
    migration: Migration = active.migration
    return session.dialect.pairs(
        [
            *(bulk(b"partition"), integer(migration.partition)),
            *(bulk(b"id"), bulk(f"{migration.id.term}-{migration.id.sequence}".encode())),
            *(bulk(b"part"), bulk(active.part.name.lower().encode())),
            *(bulk(b"moves"), bulks(move.type.value.encode() for move in migration.moves)),
            *(bulk(b"before"), bulks((each or "").encode() for each in migration.before)),
            *(bulk(b"after"), bulks((each or "").encode() for each in migration.after)),
        ]
    )


def journal(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """HOLDFAST.JOURNAL name partition from count: mutations after a point, `epoch-number`."""
    partition, count = parse_integer(args[2]), parse_integer(args[4])
    after = point_of(args[3])
    if count < 1:
        raise CommandError(SYNTAX)
    holding = around.data.holdings.get(PartitionId(partition))
    if holding is None:
        raise CommandError(NOT_MINE)
    holding.following.note(args[1], around.context.now)
    copy = holding.copies.get(args[1])
    if copy is None:
        return array([])
    page = copy.journal.read(after, min(count, ENTRIES_MAX))
    if isinstance(page, Gap):
        oldest = text_of(page.first_available).decode()
        raise CommandError(f"GAP the oldest point that can be gone on from is {oldest}")
    return array(
        [
            array([bulk(b"%d-%d" % (each.epoch, each.counter)), bulk(each.key), bulk(each.payload)])
            for each in page.entries
        ]
    )


COMMANDS: Final = (
    Aside("HOLDFAST.STATE", -1, Trait(0), state, in_multi=False),
    Aside("HOLDFAST.MEMBERS", 1, Trait(0), members),
    Aside("HOLDFAST.MIGRATIONS", 1, Trait(0), migrations),
    Aside("HOLDFAST.PROMOTE", -1, Trait(0), promote, in_multi=False),
    Aside("HOLDFAST.DEMOTE", -1, Trait(0), demote, in_multi=False),
    Aside("HOLDFAST.JOURNAL", 5, Trait(0), journal),
)
