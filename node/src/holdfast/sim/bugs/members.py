"""Wrong ways to be a member: views, leases, promises, what is on the disk."""

from __future__ import annotations

from functools import partial
from typing import Final

from holdfast.core.context import Context
from holdfast.core.effects import Effect
from holdfast.core.election import Election
from holdfast.core.events import ConfirmedDead
from holdfast.core.membership import Membership
from holdfast.core.messages import Origin
from holdfast.core.node import Node
from holdfast.core.outbox import Outbox
from holdfast.core.quorums import NO_STAY, Agreed, Electorate
from holdfast.core.repair import repaired
from holdfast.core.table import Row
from holdfast.core.views import View
from holdfast.ids import MemberId, Millis, Term, Version
from holdfast.sim.bugs import mixes
from holdfast.sim.bugs.fault import Bug, replaced

FOR_EVER: Final = Millis(1 << 40)

_install: Final = Membership.install
_on_confirmed_dead: Final = Node._on_confirmed_dead


def may_serve_for_ever(node: Node) -> Millis:
    """In the place of `Node._may_serve_until`: once granted, never over."""
    had_one = node.is_master or node.membership.lease_until >= 0
    return FOR_EVER if had_one else node.membership.lease_until


def promises_and_forgets(election: Election, _: Term, origin: Origin) -> None:
    """In the place of `Election._promise`: the term is not remembered, and no vow is made."""
    election.abdicate(f"promised something to {origin.id}")


def one_is_enough(electorate: Electorate, agreed: Agreed) -> bool:
    """In the place of `Electorate.agree`: no majority is needed."""
    return any(agreed(member) != NO_STAY for member in electorate.voters)


def takes_an_older_view(membership: Membership, view: View) -> bool:
    """In the place of `Membership.install`: whatever comes last is the newest."""
    context = membership.context
    held = context.view
    if held is not None and held.cluster == view.cluster and view.key < held.key:
        context.view = None
        context.promised = view.term
    return _install(membership, view)


def promotes_itself(node: Node, event: ConfirmedDead) -> None:
    """In the place of `Node._on_confirmed_dead`: the heir does not wait for the master's word."""
    _on_confirmed_dead(node, event)
    if node.view is None:
        return
    rows = []
    for row in node.table.rows:
        heirs = repaired(row.replicas, lambda member: member != event.id)
        if row.owner == event.id and heirs[0] == node.me.id:
            rows.append(row.changed(Version(row.version + 1), heirs, node.view.term))
    node.participation.take(rows, ())


def writes_no_rows(_: Context, rows: tuple[Row, ...], *, fresh: bool = False) -> None:
    """In the place of `Context.persist_rows`: nothing reaches the disk."""
    del rows, fresh


def lets_everything_out(outbox: Outbox, effect: Effect) -> None:
    """In the place of `Outbox._gated`: nothing waits for the disk."""
    outbox._effects.append(effect)


def vows_nothing(_: Membership, candidate: MemberId) -> bool:
    """In the place of `Membership.vow_binds`: whoever asks is helped."""
    del candidate
    return False


BUGS: Final = (
    Bug(
        "lease-ignored",
        "A member serves after its lease is over: beside it, whoever replaced it does too.",
        partial(replaced, Node, "_may_serve_until", may_serve_for_ever),
        start=2,
        mix=mixes.falling_apart,
    ),
    Bug(
        "promise-forgotten",
        "A voter promises and does not remember it: two masters share a term.",
        partial(replaced, Election, "_promise", promises_and_forgets),
        start=2,
        mix=mixes.falling_apart,
    ),
    Bug(
        "one-vote-is-enough",
        "Who decides needs one voter instead of a majority: the cluster falls apart in two.",
        partial(replaced, Electorate, "agree", one_is_enough),
        start=3,
    ),
    Bug(
        "older-view-taken",
        "A view that comes late replaces a newer one: a member goes back in time.",
        partial(replaced, Membership, "install", takes_an_older_view),
        start=2,
    ),
    Bug(
        "backup-promotes-itself",
        "The first backup of a dead owner takes over alone, while the master decides otherwise.",
        partial(replaced, Node, "_on_confirmed_dead", promotes_itself),
        start=6,
    ),
    Bug(
        "rows-not-written",
        "The table never reaches the disk: a whole cluster that comes back knows no partition.",
        partial(replaced, Context, "persist_rows", writes_no_rows),
        mix=mixes.coming_back,
    ),
    Bug(
        "gate-removed",
        "A message leaves before the record that it depends on is on the disk.",
        partial(replaced, Outbox, "_gated", lets_everything_out),
        start=3,
    ),
    Bug(
        "vow-ignored",
        "A voter helps another to become master while the one that it vowed to leads.",
        partial(replaced, Membership, "vow_binds", vows_nothing),
    ),
)
