"""How the slots of two rows hang together, and the moves that bring one chain to its target.

Where a member changes its slot, its old and its new slot depend on each other. Follow these
dependences and the differing slots fall into *chains* (`planner` draws them). This module finds a
chain and lists its moves one by one; it neither orders chains nor decides what may be seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.cycles import index_of
from holdfast.core.migrations import MigrationType, Move
from holdfast.ids import NO_INDEX, MemberId

Slots = Sequence[MemberId | None]


def chain_through(row: Slots, target: Slots, slot: int) -> list[int]:
    """The chain that an unsettled slot belongs to, from its head to its tail. Needs no cycle."""
    chain = [slot]
    while (origin := index_of(row, target[chain[-1]])) != NO_INDEX:
        chain.append(origin)
    chain.reverse()
    while (goal := index_of(target, row[chain[-1]])) != NO_INDEX:
        chain.append(goal)
    return chain


def moves_of(row: Slots, target: Slots, chain: list[int]) -> list[Move]:
    """The moves that settle a whole chain, in the order in which they must happen."""
    if row[chain[-1]] is None:
        return moves_into_hole(row, target, chain)
    return moves_by_replacing(row, target, chain)


def moves_by_replacing(row: Slots, target: Slots, chain: list[int]) -> list[Move]:
    """From the head, each member replaces the next one, which comes back in the next move.

    Every slot stays filled; without a newcomer the head is vacant from the first move on.
    """
    moves = []
    first, *others = chain
    if target[first] is not None:
        moves.append(move(row[first], first, target[first], first))
    else:
        moves.append(shift(row[first], first, others[0], replaced=row[others[0]]))
        first, *others = others
    for before, slot in zip((first, *others), others, strict=False):
        moves.append(move(row[slot], slot, row[before], slot))
    return moves


def moves_into_hole(row: Slots, target: Slots, chain: list[int]) -> list[Move]:
    """From the tail, each member goes into the hole before it, and leaves the hole behind it.

    No copy is given up. A slot that is left for a colder one is filled in the same move when its
    next holder is new or comes from a colder slot, so that the hole doesn't get hotter for it.
    That also keeps slot 0 filled: whoever comes to it is new or comes from a colder slot.
    """
    moves = []
    rest = list(chain)
    hole = rest.pop()
    while rest:
        slot = rest.pop()
        origin = rest[-1] if rest else NO_INDEX
        successor = target[slot]
        if slot < hole and successor is not None and (origin == NO_INDEX or origin > slot):
            moves.append(hand_over(row[slot], slot, hole, successor, origin))
            if origin == NO_INDEX:
                return moves
            rest.pop()
            hole = origin
        else:
            moves.append(shift(row[slot], slot, hole))
            hole = slot
    if target[hole] is not None:
        moves.append(copy(target[hole], hole))
    return moves


def copy(newcomer: MemberId | None, slot: int) -> Move:
    """A newcomer takes a vacant slot."""
    return Move(MigrationType.COPY, None, NO_INDEX, NO_INDEX, newcomer, NO_INDEX, slot)


def move(leaver: MemberId | None, slot: int, newcomer: MemberId | None, new: int) -> Move:
    """A newcomer replaces the holder of a slot; or nobody does (`new` is `NO_INDEX`)."""
    return Move(MigrationType.MOVE, leaver, slot, NO_INDEX, newcomer, NO_INDEX, new)


def clear(leaver: MemberId | None, slot: int) -> Move:
    """The holder of a slot leaves it vacant."""
    return move(leaver, slot, None, NO_INDEX)


def hand_over(
    holder: MemberId | None, slot: int, hole: int, successor: MemberId | None, origin: int
) -> Move:
    """The holder of a slot goes to a hole, and a newcomer or a colder replica takes its place."""
    return Move(MigrationType.SHIFT_DOWN, holder, slot, hole, successor, origin, slot)


def shift(
    member: MemberId | None, slot: int, new: int, *, replaced: MemberId | None = None
) -> Move:
    """A member goes to another slot, which is vacant or whose holder leaves."""
    kind = MigrationType.SHIFT_UP if new < slot else MigrationType.SHIFT_DOWN
    source_current = NO_INDEX if replaced is None else new
    return Move(kind, replaced, source_current, NO_INDEX, member, slot, new)
