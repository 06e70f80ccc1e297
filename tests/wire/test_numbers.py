"""Every message has a number, and the numbers stay what they are."""

from __future__ import annotations

from typing import get_args

from holdfast.core.messages import Message
from holdfast.wire.numbers import MESSAGES, NUMBERS


def test_every_message_has_a_number() -> None:
    assert set(NUMBERS) == set(get_args(Message))


def test_no_number_is_what_blank_memory_looks_like() -> None:
    assert all(0 < number < 255 for number in NUMBERS.values())
    assert len(MESSAGES) == len(NUMBERS)


def test_numbers_are_for_ever() -> None:
    """A change of this list breaks every running cluster: only ever add to it."""
    given = {kind.__name__: number for kind, number in NUMBERS.items()}
    assert given == {
        "Hello": 10,
        "JoinRequest": 11,
        "Redirect": 12,
        "Refusal": 13,
        "Claim": 20,
        "Promise": 21,
        "NewView": 22,
        "NotListed": 23,
        "NewerTerm": 24,
        "Farewell": 25,
        "Heartbeat": 26,
        "Grant": 27,
        "Fetch": 30,
        "Report": 31,
        "Publication": 32,
        "PublicationAck": 33,
        "VersionsRequest": 34,
        "Versions": 35,
        "StablePublication": 36,
        "MigrationRequest": 50,
        "FragmentPush": 51,
        "FragmentAck": 52,
        "MigrationReady": 53,
        "CommitRequest": 54,
        "CommitAck": 55,
        "Request": 70,
        "RequestDone": 71,
        "RequestPending": 72,
        "Prepare": 73,
        "PrepareAck": 74,
        "Abort": 75,
        "BackupFrame": 90,
        "BackupAck": 91,
        "ReplicaCheck": 92,
        "SyncAsk": 93,
        "SyncPlan": 94,
        "SyncPull": 95,
        "SyncPage": 96,
        "SyncEnd": 97,
        "Forward": 98,
        "Forwarded": 99,
    }
