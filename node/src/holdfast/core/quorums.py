"""How many must agree, when some of the voters are known to be dead.

Rules (`design/3` §1; `docs/adr/0003`)
--------------------------------------
* Decisions need a majority of the voters, so that any two sets that decided anything have a member
  in common.
* A voter whose death is a fact, and was one while nobody could have removed the member that counts
  (`membership.confirm_dead`), need not be counted. One **without files** never votes again; one
  with files comes back and votes by its id. So voters that *may vote* are the living ones and the
  dead ones with files, and a majority of these is enough, in whatever stay they agree.
* Fewer are enough where none of them has come back: a majority of the **living**, each in the very
  stay that is listed. Two such sets of members that live at one moment have a member in common. To
  share one with every majority of those that may vote, too, of `n` of them at least
  `n - majority(n) + 1` must agree.

      may vote    1   2   3   4   5   6   7
      majority    1   2   2   3   3   4   4
      at least    1   1   2   2   3   3   4     however many are dead

  Hence of two the survivor goes on alone; of three, two that die at the same moment stop the third
  until one is back, and two that die one after the other do not.
* Where no voter is left that may ever vote, the living members of any kind are the voters.
* A cluster exists once so many of its founders have confirmed it as are a majority of the initial
  list (`View.founding`), whoever of them is dead: a majority of the rest could found another one.

States
------
None: a pure function from a view and its dead to who must agree (`Electorate`). What a member
knows of the dead, and which of them it need not count, is kept by `membership`.

What can go wrong
-----------------
*Two come back, and each candidate has heard of the death of the other one only.* If a promise of
one that came back counted among the living, {A, D'} and {B, E'} could both decide in a view of A,
B, D and E. So it counts only in a majority of all that may vote.

While a change of the voters is not committed, some know the old view and some the new. So both must
agree to everything: the view carries the voters before it (`View.base`) until the master, having
seen it committed, publishes it once more without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.core.views import Member, View
from holdfast.ids import Millis

Discounted = Callable[[Member], bool]
Agreed = Callable[[Member], int]
"""The stay in which a voter agrees; `NO_STAY`."""
NO_STAY: Final = -1


@dataclass(frozen=True, slots=True)
class Electorate:
    """Who is counted, and how many of them must agree: in any stay, or in the one listed."""

    voters: tuple[Member, ...]
    """Those that may vote."""
    majority: int
    living: tuple[Member, ...] = ()
    at_least: int = 1

    def agree(self, agreed: Agreed) -> bool:
        """Whether enough of them agree."""
        anyhow = [member for member in self.voters if agreed(member) != NO_STAY]
        if len(anyhow) >= self.majority:
            return True
        listed = [member for member in self.living if agreed(member) == member.incarnation]
        return len(listed) >= self.at_least

    def reached_at(self, times: Callable[[Member], Millis], never: Millis) -> Millis:
        """The latest time to which enough of them have come, in the stays that are listed."""
        anyhow = _nth(sorted(map(times, self.voters), reverse=True), self.majority, never)
        if self.living == self.voters and self.at_least >= self.majority:
            return anyhow  # nobody is dead, and the other way asks for no fewer
        listed = _nth(sorted(map(times, self.living), reverse=True), self.at_least, never)
        return max(anyhow, listed)


def _nth(times: list[Millis], count: int, never: Millis) -> Millis:
    return times[count - 1] if count <= len(times) else never


def majority(count: int) -> int:
    """More than half."""
    return count // 2 + 1


def electorates(view: View, is_discounted: Discounted) -> tuple[Electorate, ...]:
    """Who decides in a view, for someone who knows these deaths: each of them must agree."""
    base = tuple(view.find(voter.id) or voter for voter in view.base)
    founders = Electorate(view.members, view.founding) if view.founding else None
    every = (
        _electorate(view.voters, view.members, is_discounted),
        _electorate(base, base, is_discounted),
        founders,
    )
    return tuple(each for each in every if each is not None)


def _electorate(
    voters: tuple[Member, ...], members: tuple[Member, ...], is_discounted: Discounted
) -> Electorate | None:
    """None where nobody is left who may ever vote: then nobody there can object."""
    living = tuple(member for member in voters if not is_discounted(member))
    possible = tuple(member for member in voters if member.persistent or member in living)
    if not possible:
        possible = living = tuple(member for member in members if not is_discounted(member))
    if not possible:
        return None
    needed = majority(len(possible))
    at_least = max(majority(len(living)), len(possible) - needed + 1)
    return Electorate(possible, needed, living, at_least)
