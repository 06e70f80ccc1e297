"""How many must agree, when some of the voters are known to be dead.

Rules (`design/3` §1; `docs/adr/0003`)
--------------------------------------
* Decisions need a majority of the voters, so that any two sets that decided anything have a member
  in common.
* A voter whose death is a fact, and was one while nobody could have removed the member that counts
  (`membership.confirm_dead`), need not be counted: a majority of the *living* is enough. Two such
  sets of members that live at the same moment have a member in common.
* But a dead voter **with files** may come back and vote by its id, in a plain majority of the view
  that it remembers. So whoever decides must also share a member with every such majority: of `n`
  voters that may ever vote, at least `n - majority(n) + 1` must agree.

      voters      1   2   3   4   5   6   7
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
While a change of the voters is not committed, some know the old view and some the new. So both must
agree to everything: the view carries the voters before it (`View.base`) until the master, having
seen it committed, publishes it once more without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.views import Member, View

Discounted = Callable[[Member], bool]


@dataclass(frozen=True, slots=True)
class Electorate:
    """Who is counted, and how many of them must agree."""

    living: tuple[Member, ...]
    needed: int

    def agree(self, agrees: Callable[[Member], bool]) -> bool:
        """Whether enough of the living agree."""
        return sum(agrees(member) for member in self.living) >= self.needed


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
    possible = sum(member.persistent or member in living for member in voters)
    if not possible:
        living = tuple(member for member in members if not is_discounted(member))
        possible = len(living)
    if not possible:
        return None
    needed = max(majority(len(living)), possible - majority(possible) + 1)
    return Electorate(living, needed)
