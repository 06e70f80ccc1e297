"""The number of each message on the wire: once given, never given again.

Rules
-----
* A number belongs to one meaning for ever. A message whose fields change in a way that old members
  would misread gets a new number and a new class; fields may be added at the end with a default.
* Tens are groups, in the order of `core.messages`; a group keeps its free numbers for its own.
* Numbers are one byte. 0 and 255 stay free: they are what zeroed and erased memory looks like.

States
------
None: this is a table. `tests/wire/test_numbers.py` compares it with the `Message` union.

What can go wrong
-----------------
A message without a number could be sent by the core and by no member: the completeness test is
what notices. A number given twice would decode one message as another: `MESSAGES` refuses that
when it is built.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.data_messages import (
    BackupAck,
    BackupFrame,
    Forward,
    Forwarded,
    ReplicaCheck,
    SyncAsk,
    SyncEnd,
    SyncPage,
    SyncPlan,
    SyncPull,
)
from holdfast.core.messages import (
    Abort,
    Claim,
    CommitAck,
    CommitRequest,
    Farewell,
    Fetch,
    FragmentAck,
    FragmentPush,
    Grant,
    Heartbeat,
    Hello,
    JoinRequest,
    Message,
    MigrationReady,
    MigrationRequest,
    NewerTerm,
    NewView,
    NotListed,
    Prepare,
    PrepareAck,
    Promise,
    Publication,
    PublicationAck,
    Redirect,
    Refusal,
    Report,
    Request,
    RequestDone,
    RequestPending,
    StablePublication,
    Versions,
    VersionsRequest,
)

NUMBERS: Final[dict[type[Message], int]] = {
    # finding one another
    Hello: 10,
    JoinRequest: 11,
    Redirect: 12,
    Refusal: 13,
    # terms, leases, views
    Claim: 20,
    Promise: 21,
    NewView: 22,
    NotListed: 23,
    NewerTerm: 24,
    Farewell: 25,
    Heartbeat: 26,
    Grant: 27,
    # the partition table
    Fetch: 30,
    Report: 31,
    Publication: 32,
    PublicationAck: 33,
    VersionsRequest: 34,
    Versions: 35,
    StablePublication: 36,
    # migrations
    MigrationRequest: 50,
    FragmentPush: 51,
    FragmentAck: 52,
    MigrationReady: 53,
    CommitRequest: 54,
    CommitAck: 55,
    # data
    BackupFrame: 90,
    BackupAck: 91,
    ReplicaCheck: 92,
    SyncAsk: 93,
    SyncPlan: 94,
    SyncPull: 95,
    SyncPage: 96,
    SyncEnd: 97,
    Forward: 98,
    Forwarded: 99,
    # requests and state changes
    Request: 70,
    RequestDone: 71,
    RequestPending: 72,
    Prepare: 73,
    PrepareAck: 74,
    Abort: 75,
}
"""Every message that may travel, with its number."""

MESSAGES: Final[dict[int, type[Message]]] = {number: kind for kind, number in NUMBERS.items()}
"""The other way round."""

assert len(MESSAGES) == len(NUMBERS), "a number is given twice"
