"""Who this process is.

A member with files is the one that they name, in its next incarnation (`shell.keeper`).
A member without files is a new one at each start: what it had promised is forgotten with its
memory, so nobody may count on it under the same name (`design/3` §1, `sim.process.member_of`).
"""

from __future__ import annotations

import uuid

from holdfast.core.config import LEVEL_MAX
from holdfast.core.views import Endpoints, Kind, Member
from holdfast.ids import Address, MemberId

FIRST_INCARNATION = 1


def member_of(
    *,
    name: str,
    address: Address,
    group: str,
    kind: Kind,
    endpoints: Endpoints,
    known: tuple[MemberId, int] | None = None,
) -> Member:
    """This stay: of the member whose files are here (id and incarnation), or of a new one."""
    member, incarnation = known or (MemberId(str(uuid.uuid4())), FIRST_INCARNATION)
    return Member(
        id=member,
        incarnation=incarnation,
        name=name,
        address=address,
        group=group,
        kind=kind,
        persistent=known is not None,
        level_max=LEVEL_MAX,
        endpoints=endpoints,
    )
