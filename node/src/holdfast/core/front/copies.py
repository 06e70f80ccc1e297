"""HOLDFAST.BULK COPIES and COPY: what a member has of a partition, owner or not, for who compares.

Rules (`design/7` "audit"; seed 004)
------------------------------------
* Whoever has data of a partition tells it: no lease is needed, and no row. That is what it is for:
  to see what a backup has, whatever it should have. Applications never read here.
* COPIES lists the fragments that are here. COPY takes a snapshot of one (`stores.snapshot`) for the
  session that asks, as OPEN does; with it comes where the copy stands: the point of its history,
  and whether it is *clean*, as far as this member knows.
* A fragment is on as many holders as its settings ask for (`copies`): what the others have not,
  they need not have.
* What has expired by a moment that the asker names is left out; 0 names none. So two members that
  are asked at different times leave out the same.

States: those of the session's snapshot (`front.bulk`).

What can go wrong
-----------------
*Copies are compared while somebody writes.* They stand at different points. Two that stand at the
same point and are not alike are a fault; others are asked again.
*A fragment goes between COPIES and COPY.* Then it has no records, and stands nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.data.sessions import Session
from holdfast.core.data.vectors import Point
from holdfast.core.front.asides import Subcommand
from holdfast.core.front.reading import hold, let_go, partition_in, text_of
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.replies import array, bulk, integer
from holdfast.core.stores.snapshot import Snapshot

NOWHERE: Final = Point(0, 0)


def list_copies(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """COPIES partition: at which index this member has it, and the fragments that are here."""
    partition = partition_in(around, args)
    index = around.context.table.row(partition).index_of(around.context.me.id)
    holding = around.data.holdings.get(partition)
    names = [] if holding is None else sorted(holding.copies)
    return array([integer(index), array([bulk(name) for name in names])])


def open_copy(around: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """COPY partition fragment moment_ms: a snapshot; where it stands, whether it is clean, how many
    holders are to have it, how many records it has."""
    partition, moment = partition_in(around, args), parse_integer(args[4])
    holding = around.data.holdings.get(partition)
    copy = None if holding is None else holding.copies.get(args[3])
    if copy is None:
        let_go(around, session.number)
        return array([bulk(text_of(NOWHERE)), integer(0), integer(0), integer(0)])
    snapshot = hold(around, session.number, lambda: Snapshot(copy.fragment, moment))
    stand = copy.standing().stand
    clean = copy.backup is None or copy.is_sound()
    return array(
        [
            bulk(text_of(Point(stand.epoch, stand.counter))),
            integer(clean),
            integer(copy.fragment.settings.copies),
            integer(len(snapshot)),
        ]
    )


COPIES: Final[Mapping[bytes, Subcommand[Surroundings]]] = {
    b"COPIES": (3, list_copies),
    b"COPY": (5, open_copy),
}
