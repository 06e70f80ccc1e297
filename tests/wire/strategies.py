"""Every message that can be, drawn from the declared types of its fields.

The ranges here are written by hand, not taken from `holdfast.wire.validation`: an oracle that asks
the engine proves nothing.
"""

from __future__ import annotations

import types
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from holdfast.core.messages import Message, Migration, MigrationId, Origin
from holdfast.core.migrations import MigrationType, Move
from holdfast.core.states import ASKABLE, ClusterState
from holdfast.core.views import Kind, Member, View
from holdfast.ids import Address, MemberId, Millis, PartitionId, Replicas, Term, Version

MESSAGE_TYPES: tuple[type[Message], ...] = get_args(Message)

NAMES = st.sampled_from(["", "a", "holdfast", "größe", "網", "\x00\n", "host:5701"]) | st.text(
    alphabet=st.characters(codec="utf-8"), max_size=3
)
MEMBERS = st.sampled_from([MemberId(f"member-{letter}") for letter in "abcdefgh"])
LARGE = 2**53 - 1

SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: NAMES,
    bool: st.booleans(),
    int: st.integers(0, LARGE),
    MemberId: MEMBERS,
    Address: NAMES,
    Term: st.integers(0, LARGE),
    Version: st.integers(-1, 2**31 - 1),
    Millis: st.integers(-1, LARGE),
    bytes: st.binary(max_size=5) | st.just(bytes(range(256))),
    PartitionId: st.integers(0, 16_383),
    Kind: st.sampled_from(Kind),
}

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "stamp": st.integers(-(2**63), 2**63 - 1),
    "partition_count": st.integers(1, 16_384),
    "replica_count": st.integers(1, 7),
    "entries": st.lists(st.integers(0, LARGE), min_size=6, max_size=6).map(tuple),
    "versions": st.lists(st.integers(-1, 2**31 - 1), max_size=5).map(tuple),
}


@st.composite
def rows(draw: st.DrawFn) -> Replicas:
    """A row with vacant indexes anywhere and nobody twice."""
    holders = draw(st.lists(st.none() | MEMBERS, min_size=1, max_size=7))
    seen: set[MemberId] = set()
    row: list[MemberId | None] = []
    for holder in holders:
        row.append(None if holder in seen else holder)
        if holder is not None:
            seen.add(holder)
    return tuple(row)


@st.composite
def migrations(draw: st.DrawFn) -> Migration:
    """A newcomer takes the index of someone, or a vacant one, of a row."""
    before = draw(rows())
    index = draw(st.integers(0, len(before) - 1))
    source = before[index]
    newcomer = MemberId("member-new")
    kind = MigrationType.COPY if source is None else MigrationType.MOVE
    move = Move(kind, source, -1 if source is None else index, -1, newcomer, -1, index)
    after = (*before[:index], newcomer, *before[index + 1 :])
    return Migration(
        id=draw(of_class(MigrationId)),
        partition=draw(SCALARS[PartitionId]),
        version_before=draw(SCALARS[Version]),
        moves=(move,),
        before=before,
        after=after,
    )


@st.composite
def views(draw: st.DrawFn) -> View:
    """A view whose members are distinct."""
    members = st.lists(of_class(Member), max_size=4, unique_by=lambda member: member.id)
    drawn = {
        name: draw(of_hint(hint))
        for name, hint in get_type_hints(View).items()
        if name not in ("members", "state")
    }
    return View(members=tuple(draw(members)), state=draw(st.sampled_from(ASKABLE)), **drawn)


def of_hint(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a declared type."""
    if hint == Replicas:
        return rows()
    if hint in SCALARS:
        return SCALARS[hint]
    if get_origin(hint) in (Union, types.UnionType):
        (present,) = (part for part in get_args(hint) if part is not type(None))
        return st.none() | of_hint(present)
    if get_origin(hint) is list:
        return st.lists(of_hint(get_args(hint)[0]), max_size=3)
    if get_origin(hint) is tuple:
        first, *more = get_args(hint)
        if more == [Ellipsis]:
            return st.lists(of_hint(first), max_size=3).map(tuple)
        return st.tuples(of_hint(first), *map(of_hint, more))
    return of_class(hint)


def of_class(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a dataclass or an enum."""
    if kind is Migration:
        return migrations()
    if kind is View:
        return views()
    if kind is ClusterState or not hasattr(kind, "__dataclass_fields__"):
        return st.sampled_from(kind)
    hints = get_type_hints(kind)
    arguments = {
        field.name: FIELDS[field.name] if field.name in FIELDS else of_hint(hints[field.name])
        for field in fields(kind)
    }
    return st.builds(kind, **arguments)


ORIGINS: st.SearchStrategy[Origin] = of_class(Origin)
MESSAGES: st.SearchStrategy[Message] = st.sampled_from(MESSAGE_TYPES).flatmap(of_class)
