"""All checkers together, in the order in which they need one another."""

from __future__ import annotations

from holdfast.sim.checkers.acks import Acknowledgements
from holdfast.sim.checkers.changes import Changes, StableTables
from holdfast.sim.checkers.copies import Copies
from holdfast.sim.checkers.knowledge import Endings, Plans
from holdfast.sim.checkers.lineage import Lineage
from holdfast.sim.checkers.losses import Losses
from holdfast.sim.checkers.masters import Masters
from holdfast.sim.checkers.memory import Memory
from holdfast.sim.checkers.moves import Moves
from holdfast.sim.checkers.ownership import Ownership
from holdfast.sim.checkers.published import Published
from holdfast.sim.checkers.requests import Requests
from holdfast.sim.checkers.rows import Rows
from holdfast.sim.checkers.views import Views
from holdfast.sim.checkers.vows import Vows
from holdfast.sim.checkers.watch import Checker
from holdfast.sim.world import World


def checkers_of(world: World, requests: Requests) -> tuple[Checker, ...]:
    """Everything that is looked at after each step."""
    ownership = Ownership(world)
    return (
        Rows(world),
        Views(world),
        Masters(world),
        ownership,
        Published(world, ownership),
        Losses(world),
        Lineage(world, ownership),
        Copies(world),
        Moves(world),
        Plans(world),
        Endings(world),
        Changes(world),
        StableTables(world),
        Memory(world),
        Vows(world),
        Acknowledgements(world),
        requests,
    )
