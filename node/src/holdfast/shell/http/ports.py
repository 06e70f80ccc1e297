"""What the HTTP port needs of a member: it looks at the node, and asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.effects import Notice
from holdfast.core.messages import Request
from holdfast.core.node import Node
from holdfast.ids import MemberId, Millis
from holdfast.storage.backup import Index, Part


class Outcome(Protocol):
    """What became of a request."""

    @property
    def error(self) -> str:
        """Name of an error of the tree; empty when it was done."""

    @property
    def message(self) -> str:
        """Why it was not done."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number about this process, as the metrics tell it."""

    name: str
    """Without the prefix of all our metrics; of counters with `_total`."""
    text: str
    value: float
    counter: bool = False


class SessionPort(Protocol):
    """A client's session that no socket carries, and that is told who owns what."""

    @property
    def number(self) -> int:
        """By which the node knows it."""

    @property
    def open(self) -> bool:
        """Whether the member would answer."""

    async def execute(self, command: Sequence[bytes]) -> Any:
        """The reply to the next command; an error is a `ReplyError`."""

    def tell(self, command: Sequence[bytes]) -> None:
        """A command whose reply nobody waits for."""

    def close(self) -> None:
        """It is over; who waits for a reply is told that the member ends."""


class MemberPort(Protocol):
    """One running member."""

    @property
    def node(self) -> Node:
        """To look at, never to touch."""

    @property
    def started_at(self) -> float:
        """Seconds since 1970 when this process began, by its machine's clock."""

    @property
    def secret(self) -> bytes:
        """The cluster's; empty when there is none."""

    def now(self) -> Millis:
        """The node's clock."""

    async def ask(self, request: Request) -> Outcome:
        """Ask something of the cluster, as an administrator."""

    def confirm_dead(self, member: MemberId, incarnation: int, ago: Millis) -> None:
        """An arbiter knows that this process is gone."""

    async def execute(self, command: Sequence[bytes]) -> Any:
        """The reply to one command of a session of its own; an error is a `ReplyError`."""

    def session(self) -> SessionPort:
        """A session of several commands, as of the cluster port."""

    @property
    def commands(self) -> int:
        """How many commands applications have sent; those over HTTP are not among them."""

    async def seal(self) -> None:
        """Have all that was acknowledged in files that don't change any more."""

    async def back_up(self, part: Part) -> Index:
        """Keep this member's part of a backup."""

    async def backups(self) -> dict[str, Index]:
        """The parts that it keeps, by the name of the backup."""

    async def forget_backup(self, name: str) -> None:
        """Keep this member's part of a backup no more."""

    def backup_place(self, name: str) -> str:
        """Where such a part is."""

    def listen(self, listener: Callable[[Notice], None]) -> None:
        """Tell every notice of the node to this one, too."""

    def figures(self) -> Iterable[Figure]:
        """What is counted outside the core."""
