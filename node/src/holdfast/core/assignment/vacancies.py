"""Filling what is vacant: an owner from the survivors first, then new copies, dealt like cards.

Three steps, each a walk over the rows. After them every row is full and reaches every group that
it can; the loads are nearly right, and what is left over is for `transfers`.

`promote`  a row without an owner gets a survivor, the hottest that doesn't own enough already
`evict`    a row that misses a group although no index is vacant gives up a doubled backup
`deal`     the other vacant indexes get members that lack copies

Dealing wants three things at once: exact shares, an even pace (so that early and late partitions
look alike), and company that is well mixed (so that a member's partitions have their other copies
everywhere, and its loss loads everyone a little). Each group has a *lag*, the copies that it should
have by now less those that it has, and the groups furthest behind are served; between equals
decides a `Shuffle`, a plain arithmetic sequence that is the same in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.assignment.board import SLICE, VACANT, Board, Steps
from holdfast.core.assignment.quotas import owner_bounds

NOISE_BITS: Final = 16
NOISE_MASK: Final = (1 << NOISE_BITS) - 1
LAG_BITS: Final = NOISE_BITS - 1
"""Chance counts up to two copies. Shares differ by a copy in the end, and with less chance members
with greater shares would keep each other's company."""

WEIGHT_ONE: Final = 1 << 32
MULTIPLIER: Final = 6364136223846793005
INCREMENT: Final = 1442695040888963407
STATE_MASK: Final = (1 << 64) - 1


class Shuffle:
    """Numbers that look random: Knuth's linear congruential sequence, its upper half."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def draw(self) -> int:
        """The next 32 bits."""
        self._state = (self._state * MULTIPLIER + INCREMENT) & STATE_MASK
        return self._state >> 32


def promote(board: Board, quotas: Sequence[int]) -> Steps:
    """Give each row that lost its owner a survivor for one: it has the data."""
    _, most = owner_bounds(board, quotas)
    owned = board.counts[0]
    for partition, row in enumerate(board.rows):
        if partition % SLICE == 0:
            yield
        survivors = [index for index, member in enumerate(row) if member != VACANT]
        if row[0] == VACANT and survivors:
            willing = [index for index in survivors if owned[row[index]] < most[row[index]]]
            board.swap(partition, 0, (willing or survivors)[0])
        board.narrow(partition)


def evict(board: Board, quotas: Sequence[int]) -> Steps:
    """Vacate indexes until each row has room for every group that it misses."""
    for partition, row in enumerate(board.rows):
        if partition % SLICE == 0:
            yield
        reached = frozenset(board.groups[member] for member in row if member != VACANT)
        for _ in range(board.distinct - len(reached) - row.count(VACANT)):
            board.put(partition, _dispensable(board, row, quotas), VACANT)


def _dispensable(board: Board, row: Sequence[int], quotas: Sequence[int]) -> int:
    """The index of a doubled backup: the one furthest over its quota, and the coldest of these."""
    groups = [board.groups[member] if member != VACANT else VACANT for member in row]
    doubled = [
        index
        for index, group in enumerate(groups)
        if index and group != VACANT and groups.count(group) > 1
    ]
    return max(doubled, key=lambda index: (board.loads[row[index]] - quotas[row[index]], index))


def deal(board: Board, quotas: Sequence[int]) -> Steps:
    """Fill every vacant index."""
    vacant = [partition for partition, row in enumerate(board.rows) if VACANT in row]
    dealer = _Dealer(board, quotas, len(vacant))
    for count, partition in enumerate(vacant):
        if count % SLICE == 0:
            yield
        dealer.serve(partition)


class _Dealer:
    """What is still to be dealt, to whom, and who is furthest behind."""

    def __init__(self, board: Board, quotas: Sequence[int], rows_left: int) -> None:
        self.board = board
        self.rows_left = rows_left
        """Rows to serve, with the one being served."""
        self.needs = [max(0, quota - load) for quota, load in zip(quotas, board.loads, strict=True)]
        """Copies that each member still lacks."""
        self.pools: list[list[int]] = [[] for _ in range(board.group_count)]
        for member, group in enumerate(board.groups):
            self.pools[group].append(member)
        self.shares = [sum(self.needs[member] for member in pool) for pool in self.pools]
        """Copies that each group lacked when dealing began: its pace."""
        self.left = list(self.shares)
        """Copies that each group still lacks."""
        self.total = sum(self.shares)
        self.lags = [0] * board.group_count
        """How far each group is behind its pace, in units of 1 / total copies."""
        self.weights = [WEIGHT_ONE // max(1, quota) for quota in quotas]
        shuffle = Shuffle(board.partition_count)
        self.shuffle = shuffle
        self.noise = [shuffle.draw() | 1 for _ in board.members]

    def serve(self, partition: int) -> None:
        """Fill the vacant indexes of one row."""
        row = self.board.rows[partition]
        vacant = [index for index, member in enumerate(row) if member == VACANT]
        self.lags = [
            lag + share * len(vacant) for lag, share in zip(self.lags, self.shares, strict=True)
        ]
        picked = self._pick([member for member in row if member != VACANT], len(vacant))
        salt = self.shuffle.draw()
        for index in vacant:
            member = min(picked, key=lambda member: self._standing(index, member, salt))
            picked.remove(member)
            self.board.put(partition, index, member)
        self.rows_left -= 1

    def _standing(self, index: int, member: int, salt: int) -> int:
        """How well a member is served at an index already: owners are level among all members,
        backups in proportion to what each holds. Chance decides between equals."""
        count = (self.board.counts[index][member] << NOISE_BITS) + self._chance(member, salt)
        return count * self.weights[member] if index else count

    def _chance(self, number: int, salt: int) -> int:
        """A number below 2 ** `NOISE_BITS` that is another for each member and each salt."""
        return salt * self.noise[number] >> NOISE_BITS & NOISE_MASK

    def _pick(self, company: list[int], wanted: int) -> list[int]:
        """Members to join the company: of groups that it misses as long as there are any."""
        salt = self.shuffle.draw()
        picked: list[int] = []
        reached = [self.board.groups[member] for member in company]
        for group in self._furthest_behind(salt):
            if len(picked) == wanted:
                return picked
            if group not in reached:
                picked.append(self._take(group, company, salt))
        while len(picked) < wanted:
            together = company + picked
            open_groups = [
                group
                for group in self._furthest_behind(salt)
                if any(member not in together for member in self.pools[group])
            ]
            picked.append(self._take(open_groups[0], together, salt))
        return picked

    def _furthest_behind(self, salt: int) -> list[int]:
        """All groups in the order in which they should be served."""
        total = self.total
        keys = [
            (lag << LAG_BITS) + self._chance(group, salt) * total
            for group, lag in enumerate(self.lags)
        ]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
        if min(self.left) <= 0 or max(self.left) >= self.rows_left:
            order.sort(key=self._urgency)
        return order

    def _urgency(self, group: int) -> int:
        """0 for a group that can't miss a row any more, 1 for one that lacks copies, more for one
        that lacks none: then the emptiest comes first."""
        if self.left[group] > 0:
            return int(self.left[group] < self.rows_left)
        pool = self.pools[group]
        return 2 + sum(self.board.loads[member] for member in pool) // len(pool)

    def _take(self, group: int, company: Sequence[int], salt: int) -> int:
        """The member of the group that lacks most, counted as served."""
        pool = self.pools[group]
        if len(pool) == 1:
            member = pool[0]
        else:
            absent = [member for member in pool if member not in company]
            member = max(absent, key=lambda member: self._hunger(member, salt))
        self.needs[member] -= 1
        self.left[group] -= 1
        self.lags[group] -= self.total
        return member

    def _hunger(self, member: int, salt: int) -> int:
        """What a member of a group lacks, with the same part of chance as between groups."""
        needs = self.needs[member]
        return (needs << LAG_BITS) + self._chance(member, salt) if needs > 0 else needs
