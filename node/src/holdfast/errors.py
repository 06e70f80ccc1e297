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
    ├── OutcomeUnknown              a request of which nobody here knows what became of it
    ├── CommandError                a command that can't be executed: an error reply of Redis
    ├── ClientError                 what a client of a cluster meets
    │   ├── Unreachable             nobody answers there
    │   ├── ProblemReported         a member answered with a problem document
    │   ├── TryAgain                not done, for longer than the client was willing to try
    │   ├── ScanBroken              a partition whose reading broke off after some of it was given
    │   ├── JournalGap              changes that are not kept any more
    │   ├── JobRefused              a job that is over, or not whole
    │   └── UnknownOutcome          a write that may have been done, or not
    ├── RecoveryError               persisted state that can't be recovered by the policy
    └── StorageError                the files of a member; says which file, and where in it
        ├── CorruptFile             bytes that were not written so: a checksum, a length, a gap
        ├── NewerFormat             written by a later version of Holdfast
        ├── ForeignFiles            of another member, or of a cluster with other partitions
        ├── DirectoryInUse          another process has them open
        └── DiskFailed              the disk refused to write; this process must end

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


class OutcomeUnknown(HoldfastError):
    """The request may have been done, or may be still. Look at what is so before asking again."""


class CommandError(HoldfastError):
    """A command that can't be executed; the message is the reply, its code first."""


class ClientError(HoldfastError):
    """What a client of a cluster meets."""


class Unreachable(ClientError):
    """Nobody answers there."""


class ProblemReported(ClientError):
    """A member answered a request over HTTP with a problem document."""

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        """The end of the problem's type, such as `illegal-state`."""


class TryAgain(ClientError):
    """Not done, for longer than the client was willing to try. Asking again later is safe."""


class ScanBroken(ClientError):
    """Reading a partition broke off after some of its rows were given to the caller: what comes
    next would be of another moment. Read the partition again from its beginning."""


class JournalGap(ClientError):
    """Changes after that point are not kept any more, or it is of no history of the partition."""

    def __init__(self, message: str, first: str) -> None:
        super().__init__(message)
        self.first = first
        """The oldest point that can be gone on from, once everything up to it is known."""


class JobRefused(ClientError):
    """A job that is over, or of which something is missing: begin it anew under another id."""


class UnknownOutcome(ClientError):
    """A write that may have been done, or not: whoever must know has to read."""


class RecoveryError(HoldfastError):
    """Persisted state that the recovery policy can't bring back."""


class StorageError(HoldfastError):
    """Something is wrong with a member's files: with which, and where in it, if that is known."""

    def __init__(self, file: str, reason: str, *, offset: int | None = None) -> None:
        place = file if offset is None else f"{file} at byte {offset}"
        super().__init__(f"{place}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason


class CorruptFile(StorageError):
    """What the file has there was never written so."""


class NewerFormat(StorageError):
    """A later version of Holdfast wrote this file; what it means is not known here."""


class ForeignFiles(StorageError):
    """Files of another member, or of a cluster that does not fit."""


class DirectoryInUse(StorageError):
    """Another process has this directory open."""


class DiskFailed(StorageError):
    """Writing failed, and what is on the disk is uncertain: the process must end.

    After a failed fsync the system may have dropped what was not written, and the next fsync would
    succeed all the same. So nothing is tried again on the same file.
    """
