"""`show`: what nodes hold at this moment, those that hold the same in one line."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.node import Node
from holdfast.ids import PartitionId
from tests.core import scenario_text as text
from tests.core.scenario_world import World


def show(world: World, words: list[str]) -> list[str]:
    """The lines of one `show` command."""
    what, *rest = words
    return VIEWS[what](world, rest)


def together(world: World, names: list[str], describe: Callable[[Node], str]) -> list[str]:
    """`A,B: ...` for each thing that is described differently."""
    lines: dict[str, list[str]] = {}
    for name, node in world.nodes.items():
        if not names or name in names:
            lines.setdefault(describe(node), []).append(name)
    return [f"{','.join(who)}: {line}" for line, who in lines.items()]


def table(world: World, names: list[str]) -> list[str]:
    """Rows, by member."""
    return together(world, names, lambda node: text.rows(node.table.rows))


def view(world: World, names: list[str]) -> list[str]:
    """Views, by member."""
    return together(world, names, lambda node: text.view(node.view))


def serving(world: World, _: list[str]) -> list[str]:
    """Who serves each partition."""
    partitions = range(world.config.partition_count)
    return [f"p{p} is served by {world.servers(PartitionId(p))}" for p in partitions]


def active(world: World, _: list[str]) -> list[str]:
    """Migrations whose end a member doesn't know."""
    lines = [
        f"{name}: {one.part.name} {text.migration(one.migration)}"
        for name, node in world.nodes.items()
        for one in node.participation.active.values()
    ]
    return lines or ["no active migration"]


def completed(world: World, _: list[str]) -> list[str]:
    """Completed migrations that members remember; the master's list is the one it publishes."""
    lines = []
    for name, node in world.nodes.items():
        lists = {"": node.participation.completed}
        if node.is_master:
            lists["to publish "] = node.leadership.publisher.completed
        lines += [
            f"{name}: {which}{text.migration(e.migration)} {e.outcome}"
            for which, known in lists.items()
            for entries in known.values()
            for e in entries
        ]
    return lines or ["no completed migration"]


def data(world: World, names: list[str]) -> list[str]:
    """Which partitions' data is where."""

    def held(node: Node) -> str:
        return ", ".join(f"p{partition}" for partition in sorted(node.fragments)) or "nothing"

    return together(world, names, held)


def messages(world: World, _: list[str]) -> list[str]:
    """What is under way and worth a line."""
    return [
        f"{one}{' (held)' if one.held else ''}"
        for one in world.in_flight
        if not isinstance(one.message, world.muted)
    ] or ["nothing under way"]


def stable(world: World, names: list[str]) -> list[str]:
    """The stable table, by member."""

    def kept(node: Node) -> str:
        return "no stable table" if node.stable is None else text.rows(node.stable.rows)

    return together(world, names, kept)


def state(world: World, names: list[str]) -> list[str]:
    """The state as members see it: IN_TRANSITION between the phases of a change."""
    return together(world, names, lambda node: str(node.locking.state))


def story(world: World, words: list[str]) -> list[str]:
    """What a node remembers of a subject."""
    return list(world.nodes[words[0]].story(" ".join(words[1:]) or None))


VIEWS: dict[str, Callable[[World, list[str]], list[str]]] = {
    "table": table,
    "view": view,
    "serving": serving,
    "active": active,
    "completed": completed,
    "data": data,
    "messages": messages,
    "stable": stable,
    "state": state,
    "story": story,
}
