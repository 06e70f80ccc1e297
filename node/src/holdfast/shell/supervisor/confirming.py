"""Telling the other members that a process is gone (`design/3` §1).

Everybody who is known is told, as each member decides for itself which of the dead it need not
count (`docs/adr/0003`). To say it twice does no harm, so it is repeated until it is answered; but
not for ever: after a while the lease has run out, and the members know without us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from holdfast.errors import HoldfastError
from holdfast.ids import Address, MemberId, Millis
from holdfast.shell.supervisor.happenings import Confirm

ATTEMPTS_MAX: Final = 6
ANSWER_SECONDS_MAX: Final = 2.0
PAUSE_SECONDS: Final = 0.1
"""Before the second attempt; it doubles."""

Clock = Callable[[], Millis]


class Messenger(Protocol):
    """How one member is told, by its HTTP address. Raises if it did not take it; the answer says
    whether the dead one was known there."""

    def __call__(
        self, address: Address, member: MemberId, incarnation: int, ago: Millis
    ) -> Awaitable[bool]: ...


async def spread(
    death: Confirm, messenger: Messenger, clock: Clock, told: Callable[[Address], None]
) -> tuple[str, ...]:
    """Tell all of them at once; returns why some could not be told, a line each."""
    answers = await asyncio.gather(
        *(_tell(address, death, messenger, clock, told) for address in death.to)
    )
    return tuple(answer for answer in answers if answer)


async def _tell(
    address: Address,
    death: Confirm,
    messenger: Messenger,
    clock: Clock,
    told: Callable[[Address], None],
) -> str:
    reason = ""
    for attempt in range(ATTEMPTS_MAX):
        if attempt:
            await asyncio.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
        ago = Millis(clock() - death.died_at)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                known = await messenger(address, death.id, death.incarnation, ago)
        except (HoldfastError, OSError) as error:
            reason = f"{address}: {str(error) or 'no answer'}"
        else:
            if known:
                told(address)
            return ""
    return reason
