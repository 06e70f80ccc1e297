"""Effects in the order of the contract (`effects`), and the gate before what must not leave early.

Rules (`design/3` §1, §3)
-------------------------
* A message or an answer that is produced while a record is not yet on stable storage waits for it.
  So whatever a peer or an administrator learns from us has survived our restart already; no
  machine has to think of it.
* Mutations on their way to a backup wait for what was promised, not for mutations: the backup
  makes them safe while the owner does (ADR 35). An owner that did not end in order numbers nothing
  in the ownership that it had (`data.holdings`), so a backup may have what its files lack.
* Order is kept: what waits holds back what comes after it; of mutations, among themselves.
* A message goes out in the name of the stay in which it leaves, while what it says may be true of
  the one that made it only: numbers of frames that were taken, of errands. So messages that are
  held when a stay ends are dropped, as if they had been lost on the way.

A member without files (`persistent=False`) persists nothing and waits for nothing.

States
------
Of what is to leave: *held*, by the number of the last record that it waits for, until `Persisted`
names that number or a later one; then it leaves with the effects of that step. A message that is
held when the stay ends is *dropped*.

What can go wrong
-----------------
*The process ends while something is held.* Nobody has learnt it, so nothing is to be kept: whoever
asked repeats the question, and is answered by what the files say.
*It ends before mutations are safe that a backup has.* Nobody was told that they are done: they are
of unknown outcome, and whoever owns the partition next decides it for all.
*A backup is taken out while its disk is slow, and comes back.* What it acknowledged before, in the
name of its new stay, would have numbers that the frames to that have not reached yet: an owner
would call safe what was never taken (seed 376 of the simulator's mix `written_to`).
"""

from __future__ import annotations

from collections import deque

from holdfast.core.data_messages import BackupFrame
from holdfast.core.effects import (
    Answer,
    Continue,
    Effect,
    HangUp,
    MutationsRecord,
    Notice,
    NoticeKind,
    Pending,
    Persist,
    Record,
    Reply,
    Send,
    Stop,
)
from holdfast.core.messages import Message
from holdfast.ids import Address


class Outbox:
    """Collects the effects of one step."""

    def __init__(self, *, persistent: bool) -> None:
        self.persistent = persistent
        self._effects: list[Effect] = []
        self._held: deque[tuple[int, Effect]] = deque()
        self._held_frames: deque[tuple[int, Effect]] = deque()
        self._issued = 0
        self._promised = 0
        """Number of the last record that is no mutation."""
        self._stable = 0

    def send(self, to: Address, message: Message) -> None:
        """Send once everything persisted so far is safe."""
        self._gated(Send(to, message))

    def send_frame(self, to: Address, frame: BackupFrame) -> None:
        """Send mutations, once everything is safe that was promised before them."""
        if self._promised > self._stable:
            self._held_frames.append((self._promised, Send(to, frame)))
        else:
            self._effects.append(Send(to, frame))

    def reply(self, session: int, data: bytes) -> None:
        """Bytes for a client, once everything persisted so far is safe."""
        self._gated(Reply(session, data))

    def hang_up(self, session: int) -> None:
        """Close a client's connection, after its replies."""
        self._gated(HangUp(session))

    def persist(self, record: Record) -> None:
        """Write a record."""
        if self.persistent:
            self._issued += 1
            if type(record) is not MutationsRecord:
                self._promised = self._issued
            self._effects.append(Persist(self._issued, record))

    def answer(self, request: str, error: str = "", message: str = "") -> None:
        """End a request that was asked here."""
        self._gated(Answer(request, error, message))

    def pending(self, request: str, reason: str) -> None:
        """Tell that a request waits."""
        self._gated(Pending(request, reason))

    def stop(self) -> None:
        """The process may end."""
        self._gated(Stop())

    def notice(self, kind: NoticeKind, about: str, detail: str = "") -> None:
        """Tell whoever watches; never waits."""
        self._effects.append(Notice(kind, about, detail))

    def continue_soon(self) -> None:
        """Ask for `Continued`; never waits."""
        self._effects.append(Continue())

    def persisted(self, sequence: int) -> None:
        """Let out what waited for the records up to here."""
        self._stable = max(self._stable, sequence)
        for held in (self._held, self._held_frames):
            while held and held[0][0] <= self._stable:
                self._effects.append(held.popleft()[1])

    def end_stay(self) -> None:
        """Drop what this stay of mine has not said yet: what follows is of another one."""
        self._held = deque(held for held in self._held if type(held[1]) is not Send)
        self._held_frames.clear()

    @property
    def issued(self) -> int:
        """Number of the last record."""
        return self._issued

    def take(self) -> list[Effect]:
        """The effects of this step, in order."""
        effects, self._effects = self._effects, []
        return effects

    def _gated(self, effect: Effect) -> None:
        if self._issued > self._stable:
            self._held.append((self._issued, effect))
        else:
            self._effects.append(effect)
