"""The list of all commands: what the help says of each, and where it is.

What is said here is the first paragraph of the command's own help; a test keeps them the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

RUN: Final = "Run a cluster"
ASK: Final = "Ask a running cluster"
FILES: Final = "Work on files of members that are down"
STUDY: Final = "See how it decides, without a cluster"


@dataclass(frozen=True, slots=True)
class Listed:
    """One command."""

    panel: str
    """Where the help has it."""
    module: str
    attribute: str
    about: str
    cls: str = ""
    """A class of its own for its command line, in the same module."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Any:
        """The function, or the group of commands."""
        return getattr(import_module(self.module), self.attribute)

    def options(self) -> dict[str, Any]:
        """How its command line is read."""
        cls = {"cls": getattr(import_module(self.module), self.cls)} if self.cls else {}
        return {**cls, "context_settings": dict(self.settings)}


def _of(panel: str, place: str, about: str, **more: Any) -> Listed:
    module, _, attribute = place.partition(":")
    return Listed(panel, f"holdfast.cli.{module}", attribute, about, **more)


COMMANDS: Final[Mapping[str, Listed]] = {
    "dev": _of(
        RUN,
        "dev.command:dev_command",
        "Run a cluster on this machine, with a live table of its members, until ctrl-C.",
    ),
    "member": _of(
        RUN, "member:member_command", "Run one member of a cluster until it is told to stop."
    ),
    "top": _of(
        ASK, "top:top_command", "Show state, safety, migrations and members, again and again."
    ),
    "members": _of(
        ASK, "members:members_command", "List the members of a cluster, the oldest first."
    ),
    "promote": _of(ASK, "members:promote_command", "Make a lite member a data member, in place."),
    "demote": _of(
        ASK,
        "members:demote_command",
        "Make a data member a lite one, in place; its partitions move away before.",
    ),
    "shutdown": _of(
        ASK,
        "members:shutdown_command",
        "Have a member leave in good order; its partitions move away before, if the state lets"
        " them move.",
    ),
    "migrations": _of(
        ASK, "migrations:migrations_command", "Show planned, running and completed migrations."
    ),
    "state": _of(ASK, "state:state_app", "Print or change the state of a cluster."),
    "backup": _of(
        FILES,
        "files:backup_command",
        "Back up a running cluster, at each member and with what is new only; or the files of one"
        " member, whether it runs or not.",
    ),
    "backups": _of(
        ASK,
        "files:backups_command",
        "All backups that the members of a running cluster keep, and whether they are complete.",
    ),
    "restore": _of(
        FILES, "files:restore_command", "Have a member's files again as they were backed up."
    ),
    "verify": _of(
        FILES,
        "files:verify_command",
        "Look at every byte of a stopped member's files, and say what is broken where.",
    ),
    "convert": _of(
        FILES,
        "files:convert_command",
        "Make files of another cluster out of those of one: other members, other partitions.",
    ),
    "carry": _of(
        FILES,
        "depots:carry_command",
        "Carry a backup to another place: only files that its earlier ones there lack.",
    ),
    "depot": _of(
        FILES,
        "depots:depot_command",
        "List the backups in a depot, look whether one is whole, or remove some.",
    ),
    "seed": _of(
        FILES,
        "depots:seed_command",
        "Make the first files of some members of a new cluster out of a backup.",
    ),
    "bench": _of(
        STUDY, "rejoin:bench_app", "Measure what the documents measured, on this machine."
    ),
    "sim": _of(
        STUDY,
        "sim:sim_command",
        "Run seeds of the simulator: clusters on virtual time, with faults, until one breaks.",
    ),
    "assign": _of(
        STUDY,
        "assign:assign_command",
        "Assign partitions to members, and say how even it is and what each change moves.",
        cls="InOrder",
    ),
    # A row may begin with a vacant index, as in '-,B', which must not be taken for an option.
    "plan": _of(
        STUDY,
        "plan:plan_command",
        "Print the migrations that bring one partition from CURRENT to TARGET, in order.",
        settings={"ignore_unknown_options": True},
    ),
}
