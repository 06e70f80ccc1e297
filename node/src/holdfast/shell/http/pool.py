"""Sessions that are used again: to open and to end one costs the member more than most commands.

* A session that was answered goes back and is taken by the next request. One whose command was not
  answered, since the request broke off, ends: nobody could tell whose the next reply is.
* `IDLE_MAX` wait; whoever finds none opens one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.shell.http.ports import SessionPort

IDLE_MAX: Final = 16


class Borrowed:
    """A session for one request."""

    def __init__(self, pool: Sessions, session: SessionPort) -> None:
        self._pool = pool
        self._session: SessionPort | None = session
        pool.lent.append(self)
        self._clean = True
        self.number = session.number

    async def execute(self, command: Sequence[bytes]) -> Any:
        """The reply to the next command."""
        assert self._session is not None, "it was given back"
        self._clean = False
        reply = await self._session.execute(command)
        self._clean = True
        return reply

    def tell(self, command: Sequence[bytes]) -> None:
        """A command whose reply nobody waits for."""
        if self._session is not None:
            self._session.tell(command)

    def end(self) -> None:
        """It is over, with all that it holds."""
        self._clean = False
        self.close()

    def close(self) -> None:
        """Give it back, or end it."""
        session, self._session = self._session, None
        if session is None:
            return
        self._pool.lent.remove(self)
        if self._clean and len(self._pool.idle) < IDLE_MAX:
            self._pool.idle.append(session)
        else:
            session.close()


class Sessions:
    """Of one member."""

    def __init__(self, make: Callable[[], SessionPort]) -> None:
        self.idle: list[SessionPort] = []
        self.lent: list[Borrowed] = []
        self._make = make

    def borrow(self) -> Borrowed:
        """One that is open."""
        while self.idle:
            session = self.idle.pop()
            if session.open:
                return Borrowed(self, session)
            session.close()
        return Borrowed(self, self._make())

    def stop(self) -> None:
        """End all of them: the node has stopped, and whoever waits for it would wait for ever."""
        for borrowed in tuple(self.lent):
            borrowed.end()
        while self.idle:
            self.idle.pop().close()
