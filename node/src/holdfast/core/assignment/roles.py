"""Deciding who is owner and who is which backup: the members of each row stay, their order changes.

Index by index, from the owner outwards, each member's count is brought within its bounds; what is
decided for a hotter index is not touched again. The theorem that makes this work: if a member
appears in c rows with i indexes left, then some order gives it floor(c/i) or ceil(c/i) at each of
them, for all members at once (an equitable edge colouring of a bipartite graph; de Werra, 1971).

One step trades two roles in one row: the member at the index goes to a colder one, a colder member
comes forward. A member with too many trades with one that can take one more; if no row has both,
along the shortest chain of trades. A trade copies nothing, yet a reader may have to turn elsewhere
and a namespace with few backups may have no data at the colder index, so of all trades that help,
the one is taken that leaves the fewest members away from the index that they had.

Where a row has more members than there are groups, its first indexes are of one group each, so that
owner and backups are apart however few backups a name has. Rows are made so first, and each trade
leaves them so. Who may come to an index follows from the groups at hotter ones alone: what is
decided there is not touched, and a table that was levelled stays as it is.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

from holdfast.core.assignment.board import SLICE, Board, Steps
from holdfast.core.assignment.quotas import owner_bounds, role_bounds
from holdfast.ids import REPLICA_COUNT_MAX

CYCLIC: Final = 16
"""What a trade costs that will not be done: more than all other reasons together."""

PRICE_MAX: Final = 2 * (2 + 2 + 2 + 4 + CYCLIC) + 1
"""Twice: two members come home or leave home, two more make up for an imbalance, four for an owner
without data; and one for a partner that did not need the trade."""


class Trade(NamedTuple):
    """In this partition, the member at the index being levelled trades with a colder one."""

    partition: int
    colder: int


def level_roles(board: Board) -> Steps:
    """Bring every index within its bounds."""
    yield from _part(board)
    holders = yield from board.holders()
    left = list(board.loads)
    for index in range(board.width - 1):
        if index == 0:
            bounds = owner_bounds(board, board.loads)
        else:
            bounds = role_bounds(left, board.width - index)
        level = _Level(board, holders, index, *bounds)
        yield from level.run()
        while 0 < index < board.distinct < board.width and (yield from level.even_out(left)):
            yield from level.run()
        left = [copies - at for copies, at in zip(left, board.counts[index], strict=True)]


def _part(board: Board) -> Steps:
    """Let the first indexes of each row be of different groups. Owners stay; among those who may
    come forward, who has data is first."""
    for partition, row in enumerate(board.rows):
        if partition % SLICE == 0:
            yield
        for index in range(1, board.distinct):
            if not board.fits(partition, index, row[index]):
                board.swap(partition, index, _who_fits(board, partition, index))


def _who_fits(board: Board, partition: int, index: int) -> int:
    """The index of a member that may come to a hotter one: the row has one of each group."""
    row = board.rows[partition]
    places = [at for at in range(index, board.width) if board.fits(partition, index, row[at])]
    return min(places, key=lambda at: (board.is_new(partition, row[at]), at))


class _Level:
    """One index, with the fewest and the most that each member should have there."""

    def __init__(
        self,
        board: Board,
        holders: Sequence[Sequence[int]],
        index: int,
        fewest: Sequence[int],
        most: Sequence[int],
    ) -> None:
        self.board = board
        self.holders = holders
        self.index = index
        self.fewest = fewest
        self.most = most
        self.count = board.counts[index]
        self.known: dict[tuple[int, int], array[int]] = {}
        """Trades by giver and taker, once a chain was needed; some may have gone by. They are kept
        as numbers: to free a hundred thousand tuples would take longer than a slice may."""

    def run(self) -> Steps:
        """Trade until every member is within its bounds, or no trade helps any more."""
        traded = True
        while traded:
            traded = False
            for member in self.board.members:
                for giving in (True, False):
                    traded |= yield from self._settle(member, giving=giving)

    def even_out(self, left: Sequence[int]) -> Generator[None, None, bool]:
        """Where groups keep members from their bounds, let them be equally far from them. Each
        trade, here and within bounds, brings two nearer to their exact shares: it comes to an end.
        """
        indexes = self.board.width - self.index
        traded = False
        for member in self.board.members:
            for at, trade in enumerate((yield from self._trades_of(member))):
                if at % SLICE == 0:
                    yield
                giver, taker = self._sides(trade)
                ahead = (self.count[giver] - self.count[taker]) * indexes
                if giver == member and ahead - left[giver] + left[taker] > indexes:
                    self._trade(trade)
                    traded = True
        return traded

    def _settle(self, member: int, *, giving: bool) -> Generator[None, None, bool]:
        """Let a member give the index away, or get it, as often as its bounds ask for."""
        traded = False
        if self._is_off(member, giving=giving):
            traded = yield from self._trade_directly(member, giving=giving)
        while self._is_off(member, giving=giving):
            chain = yield from self._chain(member, giving=giving)
            if not chain:
                break
            for trade in chain:
                self._trade(trade)
            traded = True
        return traded

    def _is_off(self, member: int, *, giving: bool) -> bool:
        """Whether the member is outside the bound in question."""
        if giving:
            return self.count[member] > self.most[member]
        return self.count[member] < self.fewest[member]

    def _can_help(self, member: int, *, giving: bool) -> bool:
        """Whether the other side of a trade stays within its bounds by it."""
        if giving:
            return self.count[member] < self.most[member]
        return self.count[member] > self.fewest[member]

    # --- where a member can trade ----------------------------------------------------------------

    def _trades_of(self, member: int) -> Generator[None, None, list[Trade]]:
        """All trades that take the index from a member."""
        trades: list[Trade] = []
        for at, partition in enumerate(self.holders[member]):
            if at % SLICE == 0:
                yield
            if self.board.rows[partition][self.index] == member:
                trades += self._trades_in(partition)
        return trades

    def _trades_for(self, member: int) -> Generator[None, None, list[Trade]]:
        """All trades that give the index to a member."""
        trades: list[Trade] = []
        for at, partition in enumerate(self.holders[member]):
            if at % SLICE == 0:
                yield
            place = self.board.rows[partition].index(member)
            if place > self.index and self.board.fits(partition, self.index, member):
                trades.append(Trade(partition, place))
        return trades

    def _trades_in(self, partition: int) -> list[Trade]:
        """All trades of a row."""
        row, board = self.board.rows[partition], self.board
        colder = range(self.index + 1, board.width)
        return [Trade(partition, at) for at in colder if board.fits(partition, self.index, row[at])]

    def _sides(self, trade: Trade) -> tuple[int, int]:
        """Who gives the index up and who gets it."""
        row = self.board.rows[trade.partition]
        return row[self.index], row[trade.colder]

    def _trade_directly(self, member: int, *, giving: bool) -> Generator[None, None, bool]:
        """Trade with members that stay within their bounds, the cheapest trades first."""
        shelves: list[list[Trade]] = [[] for _ in range(PRICE_MAX + 1)]
        found = yield from (self._trades_of(member) if giving else self._trades_for(member))
        for at, trade in enumerate(found):
            if at % SLICE == 0:
                yield
            if self._can_help(self._sides(trade)[giving], giving=giving):
                shelves[self._price(trade)].append(trade)
        traded = False
        for price, shelf in enumerate(shelves):
            for at, trade in enumerate(shelf):
                if at % SLICE == 0:
                    yield
                if not self._is_off(member, giving=giving):
                    return traded
                traded |= self._buy(trade, member, price, shelves, giving=giving)
        return traded

    def _buy(
        self, trade: Trade, member: int, price: int, shelves: list[list[Trade]], *, giving: bool
    ) -> bool:
        """Make a trade if it is still there, still helps and still has its price."""
        sides = self._sides(trade)
        if sides[not giving] != member or not self._can_help(sides[giving], giving=giving):
            return False
        now = self._price(trade)
        if now > price:
            shelves[now].append(trade)
            return False
        self._trade(trade)
        return True

    def _price(self, trade: Trade) -> int:
        """What a trade costs: displaced members, imbalance that later trades must settle, an owner
        that has no data yet in the place of one that has; most of all that the planner cancels it.

        From 0, two members come home, to `PRICE_MAX`.
        """
        giver, taker = self._sides(trade)
        origin = self.board.origin[trade.partition]
        displaced = (
            _strays(origin, giver, trade.colder)
            + _strays(origin, taker, self.index)
            - _strays(origin, giver, self.index)
            - _strays(origin, taker, trade.colder)
        )
        ignorant = self.index == 0 and giver in origin and taker not in origin
        there = self.board.counts[trade.colder]
        lopsided = max(0, min(2, there[giver] - there[taker] + 1))
        useless = self.count[giver] <= self.most[giver] or self.count[taker] >= self.fewest[taker]
        row = self.board.brought(trade.partition, self.index, trade.colder)
        cyclic = CYCLIC * self.board.is_cyclic(trade.partition, row, self.index)
        return 2 * (displaced + 2 + lopsided + 4 * ignorant + cyclic) + useless

    # --- chains of trades ------------------------------------------------------------------------

    def _chain(self, start: int, *, giving: bool) -> Generator[None, None, list[Trade]]:
        """The shortest chain from a member to one that can take one more, or from one that can
        spare one to the member."""
        if not self.known:
            yield from self._survey()
        came_by: dict[int, tuple[Trade, int]] = {}
        unseen = [member for member in self.board.members if member != start]
        waiting = deque([start])
        while waiting:
            yield
            member = waiting.popleft()
            for other in list(unseen):
                trade = self._between(member, other) if giving else self._between(other, member)
                if trade is None:
                    continue
                came_by[other] = (trade, member)
                if self._can_help(other, giving=giving):
                    return _walk_back(came_by, other)
                unseen.remove(other)
                waiting.append(other)
        return []

    def _survey(self) -> Steps:
        """Note all trades there are by their two sides. Done once, when a chain is needed."""
        self.known = defaultdict(lambda: array("l"))
        for partition in range(self.board.partition_count):
            if partition % SLICE == 0:
                yield
            self._note(partition)

    def _note(self, partition: int) -> None:
        """Note the trades of one row."""
        for trade in self._trades_in(partition):
            self.known[self._sides(trade)].append(partition * REPLICA_COUNT_MAX + trade.colder)

    def _between(self, giver: int, taker: int) -> Trade | None:
        """A trade between the two, if there is one; what has gone by is forgotten."""
        numbers = self.known.get((giver, taker))
        while numbers:
            trade = Trade(*divmod(numbers[-1], REPLICA_COUNT_MAX))
            if self._sides(trade) == (giver, taker):
                return trade
            numbers.pop()
        return None

    def _trade(self, trade: Trade) -> None:
        """Make a trade, which opens others in its row."""
        self.board.bring(trade.partition, self.index, trade.colder)
        if self.known:
            self._note(trade.partition)


def _strays(origin: Sequence[int], member: int, index: int) -> int:
    """1 if the member had another index in its origin, else 0."""
    return int(member in origin and origin.index(member) != index)


def _walk_back(came_by: dict[int, tuple[Trade, int]], end: int) -> list[Trade]:
    """The trades of a chain. No row occurs twice: each member trades in rows that it heads."""
    trades: list[Trade] = []
    while end in came_by:
        trade, end = came_by[end]
        trades.append(trade)
    return trades
