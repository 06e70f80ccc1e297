"""Moving copies from members that hold too many to members that hold too few.

A transfer replaces one member of a row by another, where the groups allow it. Three kinds, and the
first that helps is taken:

1. *Undoing* costs nothing: a copy that is only planned goes to someone else, or a member that was
   to lose a copy keeps it. Directly, or along a chain (`A` gives to `B` here, `B` to `C` there).
2. *Direct*, from too many to too few, costs one copy. It is done at an index that the giver has too
   often and the receiver too seldom, if there is such a row, so that no role needs to change.
3. *Chains* through members that lack nothing cost more copies than are lacking.

Direct transfers stop when the copies to make reach the budget (`budget`). Then, and for chains
always, only members *far* from their quota count, by more than `SLACK`: what the groups make costly
is not worth the last percent.

The quotas are computed anew after a round that moved something, until a round moves nothing. And a
budget is given only where copies are lacking. So a table that comes out is one that, given back,
stays as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from math import gcd
from typing import Final, NamedTuple

from holdfast.core.assignment.board import SLICE, Board, Steps
from holdfast.core.assignment.quotas import (
    copy_quotas,
    least_copies,
    owner_bounds,
    role_bounds,
)
from holdfast.core.assignment.vacancies import Shuffle

SLACK: Final = 10
"""A member is far from its quota when 1/10 of it is missing or too much, and more than one copy."""

MARGIN: Final = 20
"""The budget is the least number of copies that must be made, and 1/20 more."""


class Exchange(NamedTuple):
    """In this partition, one member's copy goes to another."""

    partition: int
    giver: int
    receiver: int


Found = Generator[None, None, bool]
"""Work in slices that tells whether it changed anything."""


def budget(board: Board, quotas: Sequence[int]) -> Generator[None, None, int]:
    """The copies that may be made to level what need not be level: none for a table that is whole.

    A table is whole when no index is vacant and nobody waits for a first copy, as it was before
    copies are dealt.
    """
    waiting = any(load == 0 < quota for load, quota in zip(board.loads, quotas, strict=True))
    if not waiting and sum(board.loads) == board.partition_count * board.width:
        return 0
    least = yield from least_copies(board)
    return least + least // MARGIN


def level_copies(board: Board, affordable: int) -> Steps:
    """Transfer copies until no round moves any."""
    while True:
        quotas = copy_quotas(board)
        if quotas == board.loads:
            return
        moved = yield from _Round(board, quotas, affordable).run()
        if not moved:
            return


class _Round:
    """One round towards fixed quotas."""

    def __init__(self, board: Board, quotas: Sequence[int], affordable: int) -> None:
        self.board = board
        self.affordable = affordable
        """Copies that may be made where nobody is far from its quota."""
        self.quotas = quotas
        self.fewest, self.most = [], []
        for index in range(board.width):
            bounds = owner_bounds(board, quotas) if index == 0 else role_bounds(quotas, board.width)
            self.fewest.append(bounds[0])
            self.most.append(bounds[1])
        self.holders: list[list[int]] = []

    def surplus(self, member: int) -> int:
        """Copies beyond the quota; negative where some are lacking."""
        return self.board.loads[member] - self.quotas[member]

    def far(self, member: int) -> bool:
        """Whether the member is too far from its quota to be left there, or has no copy at all.

        With one replica there are no groups to obey, and copies are owners: they are made level.
        """
        slack = max(1, self.quotas[member] // SLACK) if self.board.width > 1 else 0
        empty = self.board.loads[member] == 0 < self.quotas[member]
        return empty or abs(self.surplus(member)) > slack

    @property
    def _any_far(self) -> bool:
        return any(self.far(member) for member in self.board.members)

    @property
    def _in_budget(self) -> bool:
        return self.board.made < self.affordable

    @property
    def givers(self) -> list[int]:
        """Members with too many copies."""
        return [member for member in self.board.members if self.surplus(member) > 0]

    @property
    def receivers(self) -> list[int]:
        """Members with too few."""
        return [member for member in self.board.members if self.surplus(member) < 0]

    def run(self) -> Found:
        """All kinds of transfer, the cheapest first."""
        moved = yield from self._direct(undo=True, in_role=False)
        moved |= yield from self._chains(paid=False)
        moved |= yield from self._direct(undo=False, in_role=True)
        moved |= yield from self._direct(undo=False, in_role=False)
        moved |= yield from self._chains(paid=False)
        moved |= yield from self._chains(paid=True)
        return moved

    # --- direct ----------------------------------------------------------------------------------

    def _direct(self, *, undo: bool, in_role: bool) -> Found:
        """Walk over the rows, scattered over the table, and hand over what can be."""
        receivers = self.receivers
        moved = False
        count = self.board.partition_count
        shuffle = Shuffle(sum(self.quotas[member] for member in receivers))
        start = shuffle.draw() % count
        stride = _coprime(count, shuffle.draw())
        for step in range(count):
            if step % SLICE == 0:
                yield
                receivers = [member for member in receivers if self.surplus(member) < 0]
                if not receivers or not (undo or self._in_budget or self._any_far):
                    break
            partition = (start + step * stride) % count
            for index in range(self.board.width):
                if self._hands_over(partition, index, receivers, undo=undo, in_role=in_role):
                    moved = True
        return moved

    def _hands_over(
        self, partition: int, index: int, receivers: list[int], *, undo: bool, in_role: bool
    ) -> bool:
        """Let the member at this index hand its copy over, if it has too many and someone wants."""
        board = self.board
        giver = board.rows[partition][index]
        if board.loads[giver] <= self.quotas[giver]:
            return False
        if undo and not board.is_new(partition, giver):
            return False
        if in_role and board.counts[index][giver] <= self.fewest[index][giver]:
            return False
        for place, receiver in enumerate(receivers):
            if board.loads[receiver] >= self.quotas[receiver]:
                continue
            if in_role and board.counts[index][receiver] >= self.most[index][receiver]:
                continue
            if not (undo or self._in_budget or self.far(giver) or self.far(receiver)):
                continue
            if board.allows(partition, giver, receiver):
                board.put(partition, index, receiver)
                receivers.append(receivers.pop(place))  # whoever was served waits for the others
                return True
        return False

    # --- chains ----------------------------------------------------------------------------------

    def _chains(self, *, paid: bool) -> Found:
        """Follow chains from each giver, then to each receiver, until none helps."""
        moved = False
        if not any(self._counts(member, paid=paid) for member in self.board.members):
            return False
        self.holders = yield from self.board.holders(touched=not paid)
        for giver in self.givers:
            while self._counts(giver, paid=paid):
                if not (yield from self._follow([giver], self.receivers, paid=paid)):
                    break
                moved = True
        for receiver in self.receivers:
            while self._counts(receiver, paid=paid):
                if not (yield from self._follow(self.givers, [receiver], paid=paid)):
                    break
                moved = True
        return moved

    def _counts(self, member: int, *, paid: bool) -> bool:
        """Whether the member is off its quota, and far enough for the kind of chain."""
        return self.far(member) if paid else self.surplus(member) != 0

    def _follow(self, givers: list[int], receivers: list[int], *, paid: bool) -> Found:
        """Move one copy along the shortest chain.

        Exchanges in different rows don't touch each other. A chain that comes to a row twice could
        undo its own ground, and is not followed; it takes a handful of rows to make one.
        """
        chain = yield from self._search(givers, receivers, paid=paid)
        if len(frozenset(exchange.partition for exchange in chain)) < len(chain):
            return False
        for exchange in chain:
            self._exchange(*exchange)
        return bool(chain)

    def _exchange(self, partition: int, giver: int, receiver: int) -> None:
        self.board.put(partition, self.board.rows[partition].index(giver), receiver)
        self.holders[giver].remove(partition)
        self.holders[receiver].append(partition)

    def _search(
        self, givers: list[int], receivers: list[int], *, paid: bool
    ) -> Generator[None, None, list[Exchange]]:
        """Breadth first, member by member, from any giver to any receiver."""
        came_by: dict[int, Exchange] = {}
        unseen = [member for member in self.board.members if member not in givers]
        waiting = deque(givers)
        while waiting:
            giver = waiting.popleft()
            for count, partition in enumerate(self.holders[giver]):
                if count % SLICE == 0:
                    yield
                for receiver in self._takers(partition, giver, unseen, paid=paid):
                    came_by[receiver] = Exchange(partition, giver, receiver)
                    if receiver in receivers:
                        return _chain(came_by, receiver)
                    unseen.remove(receiver)
                    waiting.append(receiver)
        return []

    def _takers(self, partition: int, giver: int, unseen: list[int], *, paid: bool) -> list[int]:
        """Who could take the giver's copy. Unpaid: an undone copy, or one that is still there."""
        board = self.board
        if not paid and not board.is_new(partition, giver):
            unseen = [member for member in board.origin[partition] if member in unseen]
        return [member for member in unseen if board.allows(partition, giver, member)]


def _chain(came_by: dict[int, Exchange], end: int) -> list[Exchange]:
    """The exchanges from a giver to the end, in order."""
    chain: list[Exchange] = []
    while end in came_by:
        chain.append(came_by[end])
        end = came_by[end].giver
    return chain[::-1]


def _coprime(count: int, wish: int) -> int:
    """A stride that visits every one of `count` rows."""
    stride = wish % count | 1
    while gcd(count, stride) != 1:
        stride += 2
    return stride
