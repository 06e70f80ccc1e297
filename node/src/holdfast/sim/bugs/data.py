"""Wrong ways to keep data: replication, acknowledgements, anti-entropy, sync, files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from holdfast.core import participation
from holdfast.core.context import Context
from holdfast.core.data import content, giving, pulling, vectors
from holdfast.core.data.copies import Holding
from holdfast.core.data.giving import Giving
from holdfast.core.data.holdings import Holdings
from holdfast.core.data.journal import Gap, Journal
from holdfast.core.data.plane import Plane
from holdfast.core.data.replicas import Replicas, Sender
from holdfast.core.data.replication import Replication
from holdfast.core.data.streams import Stream
from holdfast.core.data.tickets import Desk, Ticket
from holdfast.core.data.vectors import Verdict
from holdfast.core.data_messages import BackupAck, Mutations
from holdfast.core.events import Image
from holdfast.core.messages import Origin
from holdfast.core.stores.containers import Container
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.record import (
    CHANGE,
    FLAGS_AT,
    NEVER,
    Kind,
    body_of,
    build,
    expiry_of,
    kind_of,
    version_of,
)
from holdfast.ids import MemberId, PartitionId
from holdfast.sim.bugs import mixes
from holdfast.sim.bugs.fault import Bug, replaced

_judge: Final = vectors.judge
_takers_of: Final = Replication.takers_of
_keys_in: Final = content.keys_in
_since: Final = Journal.since
_put_before: Final = Journal.put_before
_recover: Final = Holdings.recover
_apply: Final = Fragment.apply
_apply_whole: Final = Fragment._apply_whole


def does_nothing(*_: object) -> None:
    """In the place of something that matters."""


def takes_gaps_for_next(*arguments: Any, **known: Any) -> Verdict:
    """In the place of `vectors.judge`: what is missing is not noticed."""
    verdict = _judge(*arguments, **known)
    return Verdict.NEXT if verdict is Verdict.GAP else verdict


def follows_anybody(
    holdings: Holdings, owner: MemberId, partition: PartitionId, reign: int
) -> Holding | None:
    """In the place of `Holdings.under`: whoever says that it is the owner is followed."""
    del owner, reign
    return holdings.get(partition)


def doubts_only_what_lacks(
    replicas: Replicas, sender: Sender, partition: PartitionId, reign: int, *, whole: bool
) -> None:
    """In the place of `Replicas._note`: of which ownership a frame is makes no difference."""
    del replicas, reign
    if not whole:
        sender.doubted[partition] = 0


@contextmanager
def no_ownership_asked() -> Iterator[None]:
    """Neither in what is taken, nor in what is doubted."""
    with (
        replaced(Holdings, "under", follows_anybody),
        replaced(Replicas, "_note", doubts_only_what_lacks),
    ):
        yield


def acknowledges_first(stream: Stream, ack: BackupAck, met: Any) -> None:
    """In the place of `Stream.acknowledge`: any word of the receiver is good for everything."""
    del ack
    while stream.kept:
        flight = stream.kept.popleft()
        stream.kept_bytes -= flight.size
        for ticket, partitions in flight.needs.items():
            met(ticket, len(partitions))


@contextmanager
def permits_are_kept() -> Iterator[None]:
    """Neither the end of a sync nor a long silence returns a permit."""
    with replaced(Giving, "on_end", does_nothing), replaced(Giving, "advance", does_nothing):
        yield


def leaves_destinations_out(
    replication: Replication, partition: PartitionId
) -> tuple[tuple[MemberId, int], ...]:
    """In the place of `Replication.takers_of`: what is written during a copy stays here."""
    row = replication.context.table.row(partition)
    pairs = _takers_of(replication, partition)
    return tuple(pair for pair in pairs if pair[0] in row.replicas)


def skips_a_leaf(
    fragment: Fragment, leaves: Collection[int], depth: int
) -> Iterator[tuple[int, bytes]]:
    """In the place of `content.keys_in`: every other leaf is overlooked."""
    return ((leaf, key) for leaf, key in _keys_in(fragment, leaves, depth) if leaf % 2)


def knows_no_gap(journal: Journal, known: vectors.Known) -> Mutations:
    """In the place of `Journal.since`: what is forgotten did not happen."""
    missed = _since(journal, known)
    return () if isinstance(missed, Gap) else missed


def joins_anything(journal: Journal, last: int, mutations: Mutations) -> None:
    """In the place of `Journal.put_before`: what moved is put before what is here, as it is."""
    del last
    _put_before(journal, journal.oldest.counter, mutations)


def changes_anything(fragment: Fragment, key: bytes, kind: Kind, record: bytes) -> bool:
    """In the place of `Fragment._apply_change`: on whatever version is here."""
    del kind
    from holdfast.core.stores.fragment import _read_change

    _, change, arguments = _read_change(record)
    value = fragment.records.get(key)
    if isinstance(value, Container) and record[FLAGS_AT] & CHANGE:
        value.apply(change, arguments)
        value.version = record[:10]
    return True


def has_always_reached(*_: object) -> bool:
    """In the place of `participation.has_reached`."""
    return True


def answers_as_done(desk: Desk, ticket: Ticket) -> None:
    """In the place of `Desk.give_up`: what is not known is told as done."""
    ticket.answered = True
    desk._let_out(ticket.session)


def trusts_its_files(holding: Holding, _: object = None) -> bool:
    """In the place of `Holding.lacking`: what is here is enough."""
    del holding
    return False


def tells_no_doubts(replicas: Replicas, origin: Origin, sender: Sender) -> None:
    """In the place of `Replicas._acknowledge`: what this copy lacks is its own affair."""
    replicas.context.send(origin.address, BackupAck(sender.number, origin.incarnation, ()))


def leaves_locks_behind(fragment: Fragment, key: bytes, kind: Kind, record: bytes) -> None:
    """In the place of `Fragment._apply_whole`: locks are the owner's own affair."""
    if kind is not Kind.LOCK:
        _apply_whole(fragment, key, kind, record)


def lives_for_ever(fragment: Fragment, key: bytes, record: bytes) -> bool:
    """In the place of `Fragment.apply`: a backup's values have no deadline."""
    if kind_of(record) is Kind.STRING and expiry_of(record):
        record = build(version_of(record), Kind.STRING, NEVER, body_of(record))
    return _apply(fragment, key, record)


def trusts_its_last_second(holdings: Holdings, image: Image) -> None:
    """In the place of `Holdings.recover`: the power is never gone."""
    _recover(holdings, replace(image, unsure=False))


BUGS: Final = (
    Bug("gap-not-marked", "A backup that missed mutations does not notice.",
        partial(replaced, vectors, "judge", takes_gaps_for_next), mix=mixes.starved),
    Bug("epoch-ignored", "A backup takes the mutations of an owner that was replaced.",
        no_ownership_asked, mix=mixes.moving),
    Bug("any-word-acknowledges", "A write counts as safe before its backup has it.",
        partial(replaced, Stream, "acknowledge", acknowledges_first), mix=mixes.written_to),
    Bug("backups-not-awaited", "A write is acknowledged before any backup has it.",
        partial(replaced, Replication, "await_backups", does_nothing), start=27),
    Bug("destination-left-out", "What is written during a copy does not reach the destination.",
        partial(replaced, Replication, "takers_of", leaves_destinations_out)),
    Bug("final-check-skipped", "The hand-over does not wait for the last mutations.",
        partial(replaced, participation, "has_reached", has_always_reached), start=30),
    Bug("leaf-skipped", "The comparison of two copies overlooks some keys.",
        partial(replaced, giving, "keys_in", skips_a_leaf), start=4, mix=mixes.written_to),
    Bug("journal-without-gaps", "A journal that has forgotten says that nothing has changed.",
        partial(replaced, Journal, "since", knows_no_gap)),
    Bug("journal-joined-blindly", "What moved of a journal is put before mutations it has, too.",
        partial(replaced, Journal, "put_before", joins_anything), start=17,
        mix=mixes.moving),
    Bug("change-on-any-version", "A change of a container is applied to another version of it.",
        partial(replaced, Fragment, "_apply_change", changes_anything), start=44),
    Bug("unknown-told-as-done", "A write of unknown outcome is answered as done.",
        partial(replaced, Desk, "give_up", answers_as_done), start=51),
    Bug("permits-kept", "The end of a sync does not return its permit.", permits_are_kept),
    Bug("mutations-not-written", "What was acknowledged is not on disk.",
        partial(replaced, Context, "persist_mutations", does_nothing)),
    Bug("files-trusted", "A copy from files is taken for current.",
        partial(replaced, Holding, "lacking", trusts_its_files), start=6, mix=mixes.coming_back),
    Bug("end-not-recalled", "An owner that lost its end leads without asking its backups.",
        partial(replaced, Holdings, "recover", trusts_its_last_second), start=2,
        mix=mixes.coming_back),
    Bug("deletions-not-synced", "A sync brings what is new and leaves what is gone.",
        partial(replaced, pulling, "listed_difference",
                lambda *found: replace(content.listed_difference(*found), delete=())), start=6,
        mix=mixes.written_to),
    Bug("doubts-not-told", "A backup acknowledges although its copy lacks something.",
        partial(replaced, Replicas, "_acknowledge", tells_no_doubts)),
    Bug("in-flight-read", "A key whose write is not safe yet is read at once.",
        partial(replaced, Plane, "read", does_nothing), start=2, mix=mixes.written_to),
    Bug("lock-left-behind", "A backup does not keep locks.",
        partial(replaced, Fragment, "_apply_whole", leaves_locks_behind)),
    Bug("deadline-left-behind", "A backup does not keep deadlines.",
        partial(replaced, Fragment, "apply", lives_for_ever)),
)  # fmt: skip
