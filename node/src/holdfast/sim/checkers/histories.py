"""What clients saw of each key has an order: no acknowledged write is lost, nothing comes back.

Judged at the end, by `sim.linearizability`.
"""

from __future__ import annotations

from typing import Final

from holdfast.sim.clients import Clients
from holdfast.sim.linearizability import NotLinearizable, Undecided, by_key, check
from holdfast.sim.world import World

BUDGET: Final = 200_000


def judge(world: World, clients: Clients) -> None:
    """Raise for the first key whose history has no order."""
    for key, history in by_key(clients.history).items():
        verdict = check(history, budget=BUDGET)
        if isinstance(verdict, NotLinearizable):
            raise world.violation("per-key linearizable", f"{key.decode()}: {verdict}")
        if isinstance(verdict, Undecided):
            world.marks["histories too hard to judge"] += 1
