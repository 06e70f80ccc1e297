"""Clients of a small cluster, in words or bytes, with the replies as they come."""

from __future__ import annotations

from holdfast.core.events import Commanded, Disconnected, Opened
from holdfast.ids import MemberId
from tests.core.harness import A, Cluster

Word = bytes | str | int


def encoded(word: Word) -> bytes:
    """A word as it is sent."""
    return word if isinstance(word, bytes) else str(word).encode()


class Client:
    """One connection to one member."""

    def __init__(
        self, cluster: Cluster, member: MemberId = A, number: int = 1, *, plain: bool = False
    ) -> None:
        self.cluster = cluster
        self.member = member
        self.number = number
        cluster.step(member, Opened(number, plain, f"peer:{number}"))

    def send(self, *commands: str | tuple[Word, ...]) -> None:
        """Commands in one batch; what was told before is forgotten."""
        self.cluster.replies.pop(self.number, None)
        batch = [
            list(map(encoded, each.split() if isinstance(each, str) else each)) for each in commands
        ]
        self.cluster.step(self.member, Commanded(((self.number, batch),)))

    @property
    def told(self) -> bytes:
        """What came back since the last batch."""
        return self.cluster.replies.get(self.number, b"")

    def call(self, *words: Word) -> bytes:
        """One command, and what is told within some journeys."""
        return self.ask(words)

    def ask(self, *commands: str | tuple[Word, ...]) -> bytes:
        """Some commands, and what is told within some journeys."""
        self.send(*commands)
        self.cluster.run(30)
        return self.told

    def close(self) -> None:
        """Hang up."""
        self.cluster.step(self.member, Disconnected(self.number))


def alone(**settings: object) -> Cluster:
    """A owns every partition."""
    cluster = Cluster(A, **{"partition_count": 16, **settings})
    cluster.form()
    return cluster
