"""All commands of a member: those of its stores, and those that are not about keys.

COMMAND tells all of them. It is here, as nobody below knows all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.data.sessions import Session
from holdfast.core.front import administration, bulk, cluster, connection, information, whole
from holdfast.core.front.asides import Aside
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.stores.catalogue import ALL, unknown
from holdfast.core.stores.command import Trait
from holdfast.core.stores.describing import Catalogue, Described, catalogue_of, describe


def command(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """COMMAND [COUNT | DOCS | GETKEYS | HELP | INFO | LIST]."""
    return describe(EVERYTHING, around.data.plane.call, args)


ASIDES: Final[Catalogue[Aside[Surroundings]]] = catalogue_of(
    {
        "connection": connection.COMMANDS,
        "transactions": whole.TRANSACTIONS,
        "generic": whole.KEYSPACE,
        "cluster": connection.ON_THE_CLUSTER + cluster.COMMANDS,
        "holdfast": administration.COMMANDS + bulk.COMMANDS,
        "server": (*information.COMMANDS, Aside("COMMAND", -1, Trait(0), command)),
    }
)


def everything() -> Catalogue[Described]:
    """What COMMAND tells; of two with one name, the one that names its summary by partition."""
    groups: dict[str, list[Described]] = {name: [*found] for name, found in ALL.groups.items()}
    for name, asides in ASIDES.groups.items():
        groups.setdefault(name, []).extend(each for each in asides if not known(each.name))
    return catalogue_of(groups)


def known(name: str) -> bool:
    """Whether a store has a command of this name: it describes it, too."""
    return ALL.find(name.encode()) is not None


EVERYTHING: Final[Catalogue[Described]] = everything()
NAMES: Final[Mapping[bytes, Described]] = EVERYTHING.by_name


def look_up(args: list[bytes]) -> Aside[Surroundings]:
    """The aside that these arguments, its name first, are for."""
    found = ASIDES.find(args[0])
    if found is None:
        raise unknown(args)
    found.check(args)
    return found
