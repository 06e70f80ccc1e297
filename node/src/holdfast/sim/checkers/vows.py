"""Vows: nobody helps another to become master while a living master may count on it.

A vow is told by the answer that carries the asker's own time back: a heartbeat echoes a grant, a
promise echoes a claim. It runs for one lease from the first arrival of what it echoes, on the
clock of who vowed (`design/3` §1). A member that comes back from files vows to the master of the
view that it finds there, from its start. A vow to a stay that has ended, or to a candidate that
did not become master, binds nobody; nor does one of a term before that of the view that is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.core.effects import Send
from holdfast.core.events import Event, Received, Started
from holdfast.core.membership import NEVER
from holdfast.core.messages import Claim, Grant, Heartbeat, NotListed, Origin, Promise
from holdfast.core.views import View
from holdfast.ids import Address, Millis
from holdfast.sim.checkers.watch import Change
from holdfast.sim.process import Process
from holdfast.sim.world import World

ECHOES_MAX: Final = 256

Echo = tuple[Address, Millis]
"""A time of somebody's clock, and whose."""


_ECHOED: Final = frozenset((Grant, NotListed, Claim))
_BINDING: Final = frozenset((Heartbeat, Promise, Claim))


@dataclass(frozen=True, slots=True)
class Vow:
    """Not to help anybody but this one."""

    to: Origin
    term: int
    until: Millis


class Vows:
    """No promise is given while a vow to another living master runs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._arrived: dict[Process, dict[Echo, tuple[Millis, Origin]]] = {}
        """What may be echoed: when it arrived first, and from whom."""
        self._vows: dict[Process, Vow] = {}
        """What each told last."""

    def stepped(self, change: Change) -> None:
        """First what arrives, then what leaves, in its order."""
        event = change.event
        if type(event) is Started or (type(event) is Received and type(event.message) in _ECHOED):
            self._note(change)
        for sent in change.sends:
            if type(sent.message) in _BINDING:
                self._look_at(change, sent)

    def _note(self, change: Change) -> None:
        event = change.event
        if isinstance(event, Started) and event.image is not None and event.image.view is not None:
            self._come_back(change, event.image.view)
        time = asked_at(event)
        if time is None or not isinstance(event, Received):
            return
        arrived = self._arrived.setdefault(change.process, {})
        arrived.setdefault((event.origin.address, time), (change.at, event.origin))
        if len(arrived) > ECHOES_MAX:
            # the oldest came longest ago; far more than a lease, at this size
            del arrived[next(iter(arrived))]

    def _come_back(self, change: Change, view: View) -> None:
        master = view.find(view.master)
        if master is not None:
            origin = Origin(master.id, master.incarnation, master.address)
            self._vow(change, origin, view.term, change.at)

    def _vow(self, change: Change, to: Origin, term: int, since: Millis) -> None:
        until = Millis(since + self.world.config.lease_ms)
        self._vows[change.process] = Vow(to, term, until)

    def _look_at(self, change: Change, sent: Send) -> None:
        message = sent.message
        if isinstance(message, Heartbeat):
            self._told(change, (sent.to, message.granted_at), message.term)
        elif isinstance(message, Promise) and message.granted and not message.probe:
            self._check(change, sent.to, message.claimed)
            self._told(change, (sent.to, message.sent_at), message.claimed)
        elif isinstance(message, Claim) and not message.probe:
            self._check(change, change.process.site.address, message.term)

    def _told(self, change: Change, echo: Echo, term: int) -> None:
        found = self._arrived.get(change.process, {}).get(echo)
        if found is not None:
            self._vow(change, found[1], term, found[0])

    def _check(self, change: Change, candidate: Address, term: int) -> None:
        vow = self._vows.get(change.process)
        if vow is None or vow.to.address == candidate or change.at >= vow.until:
            return
        view = change.view_before
        if (view is not None and view.term > vow.term) or not self._leads(vow):
            return
        raise self.world.violation(
            "a vow is kept",
            f"{change.process.name} promises term {term} to {candidate} at {change.at}, and"
            f" vowed to {vow.to.id} in term {vow.term} until {vow.until}",
        )

    def _leads(self, vow: Vow) -> bool:
        """Whether it was made to a master: one that took office in this term, and lives. A founder
        whose cluster does not exist yet grants no lease, and gives way."""
        return any(
            view is not None
            and not view.founding
            and (view.master, view.term) == (vow.to.id, vow.term)
            for process in self.world.processes
            for view in (process.node.view,)
            if (process.node.me.id, process.node.me.incarnation) == (vow.to.id, vow.to.incarnation)
        )

    def ended(self, process: Process) -> None:
        """Whoever comes back vows anew."""
        self._arrived.pop(process, None)
        self._vows.pop(process, None)


def asked_at(event: Event) -> Millis | None:
    """The time of the sender that an answer would echo. *Never* is none: whoever is no master says
    so, and a heartbeat says so of a grant that has not come yet."""
    if not isinstance(event, Received):
        return None
    message, time = event.message, NEVER
    if isinstance(message, Grant):
        time = message.granted_at
    elif isinstance(message, NotListed) or (isinstance(message, Claim) and not message.probe):
        time = message.sent_at
    return None if time == NEVER else time
