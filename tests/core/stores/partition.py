"""A partition that every command of the catalogue is run on, and its backup."""

from __future__ import annotations

from holdfast.core.stores.catalogue import ALL, look_up
from holdfast.core.stores.command import Blocked
from holdfast.core.stores.describing import describe
from holdfast.core.stores.replies import error
from holdfast.errors import CommandError
from tests.core.stores.replicas import Replicas


class Partition(Replicas):
    """The same replicas, asked as a member asks them."""

    def ask(self, *words: bytes | str | int) -> bytes | Blocked:
        """What the catalogue's command returns; errors as they are written to the client."""
        args = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        try:
            if args[0].upper() == b"COMMAND":
                return describe(ALL, self.call(), args)
            return look_up(args).function(self.owner, self.call(), args)
        except CommandError as refused:
            return error(refused.message)

    def answer(self, args: list[bytes]) -> bytes:
        """The reply; of a command that waits, what it says when its time is up."""
        reply = self.ask(*args)
        return reply.otherwise if isinstance(reply, Blocked) else reply
