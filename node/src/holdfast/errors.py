"""Every error that Holdfast raises, in one tree.

    HoldfastError
    ├── LocalProtocolError          our own bug: an impossible event or state
    │   ├── InvalidTransition       a machine was asked for a transition that its table lacks
    │   └── InvariantViolated       a named invariant does not hold
    ├── RemoteProtocolError         the peer's bytes or messages break the rules
    │   ├── FrameError              a frame that can't be read (magic, length, checksum, version)
    │   └── MessageError            a readable frame whose message is malformed
    ├── ConfigurationError          settings that can't work; says every reason at once
    ├── TableError                  a malformed or impossible partition table
    │   └── PlanError               a transition between two tables that can't be planned
    ├── RefusedError                a request that the cluster's rules forbid now
    │   ├── UnsupportedOperation    the cluster's compatibility level lacks it
    │   ├── IllegalState            the cluster or member is not in a state that allows it
    │   └── IllegalArgument         the request names something that is not there
    ├── CommandError                a command that can't be executed: an error reply of Redis
    └── RecoveryError               persisted state that can't be recovered by the policy

A `LocalProtocolError` leaves the machine as it was: events are checked before anything changes.
Each error carries a `story`: the last things that happened to its subject, oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence


class HoldfastError(Exception):
    """Base of the tree. `story` tells what led here, oldest first."""

    def __init__(self, message: str, *, story: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.story = tuple(story)

    def __str__(self) -> str:
        if not self.story:
            return self.message
        return "\n  ".join((self.message, *self.story))


class LocalProtocolError(HoldfastError):
    """We broke our own rules. The state is unchanged."""


class InvalidTransition(LocalProtocolError):
    """A machine's transition table has no entry for this state and event."""


class InvariantViolated(LocalProtocolError):
    """A named invariant does not hold."""

    def __init__(self, invariant: str, message: str, *, story: Sequence[str] = ()) -> None:
        super().__init__(f"{invariant}: {message}", story=story)
        self.invariant = invariant


class RemoteProtocolError(HoldfastError):
    """A peer broke the rules. Its connection ends; nothing was applied."""


class FrameError(RemoteProtocolError):
    """Bytes that are not a frame of ours."""


class MessageError(RemoteProtocolError):
    """A frame whose message is malformed."""


class ConfigurationError(HoldfastError):
    """Settings that can't work together; `reasons` has one sentence for each."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


class TableError(HoldfastError):
    """A partition table or row that can't be."""


class PlanError(TableError):
    """Two rows between which no migration can be planned."""


class RefusedError(HoldfastError):
    """The cluster's rules forbid the request now. Asking again later is safe."""


class UnsupportedOperation(RefusedError):
    """The cluster's compatibility level does not have this operation."""


class IllegalState(RefusedError):
    """The cluster, or the member asked, is not in a state that allows it."""


class IllegalArgument(RefusedError):
    """The request names something that is not there."""


class CommandError(HoldfastError):
    """A command that can't be executed; the message is the reply, its code first."""


class RecoveryError(HoldfastError):
    """Persisted state that the recovery policy can't bring back."""
