"""Text scenarios: a story, the commands that make it happen, and all that is seen of it.

A file is blocks with an empty line between them. A block is prose (lines with `#`), command lines,
a line `----`, and the trace of the commands, which `pytest --rewrite` writes anew. Commit a new
trace only when every changed line is understood.

    cluster members=3 lite=0 partitions=1 replicas=3 backups=1 kept=2 level=3 persistent=no
        forms a cluster of A, B, C, then lite members, quietly, whose data is at every index of a
        row; with `names=M,A,B` they come in
        one after the other, so that the first is master whatever its name; `lease_ms=...` and
        the like set any field of the configuration
    given 0: A,B,-                  the master installs this row, quietly
    plan 0: A,-,B => A,B,- [force]  the planner's steps between these rows are scheduled
    add-member D [lite] [group=x]   a process starts and asks to be let in
    kill X | pause X | resume X | restart X       restart: with its files
    confirm-dead X [to=Y]           an arbiter's word, to everyone or to one
    ask X state NO_MIGRATION [wait=5000] | ask X level 3 | ask X promote | demote | leave
    hold | drop | mute  type=T [from=X] [to=Y]    for all such messages from now on
    release | undrop | unmute       end that; what was held goes on
    deliver | lose  [type=T] [from=X] [to=Y] [count=n]   messages under way, held or not
    cut X | Y Z     heal            the network between groups
    advance 500     settle [quiet=5000] [limit=120000]
    show table|view|serving|active|completed|data|messages|stable|story X [about]
    verbose on|off
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.core import events
from holdfast.core import messages as m
from holdfast.core.config import Config
from holdfast.core.planner import plan
from holdfast.core.states import ClusterState
from holdfast.core.stores.settings import NameSettings
from holdfast.core.versioning import raised
from holdfast.ids import Address, Millis, PartitionId
from tests.core import scenario_text as text
from tests.core.scenario_parts import InFlight
from tests.core.scenario_show import show
from tests.core.scenario_words import TYPES, configured, level_of, matcher, parse_row
from tests.core.scenario_world import World

MARK = "----"
QUIET_MS = 5_000
LIMIT_MS = 120_000


def replay(path: Path) -> str:
    """The file as it should be: with the trace that its commands make now."""
    runner = Runner()
    blocks = re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip("\n"))
    return "\n\n".join(replay_block(runner, block) for block in blocks) + "\n"


def replay_block(runner: Runner, block: str) -> str:
    """One block with its new trace."""
    lines = block.splitlines()
    head = lines[: lines.index(MARK)] if MARK in lines else lines
    commands = [line for line in head if not line.startswith("#")]
    if not commands:
        return "\n".join(head)
    output: list[str] = []
    for command in commands:
        output += runner.run(command)
    return "\n".join([*head, MARK, *(output or ["ok"])])


class Runner:
    """Carries out the commands of one file."""

    def __init__(self) -> None:
        self.world = World(Config())
        self.requests = 0
        self.commands: dict[str, Callable[[list[str], dict[str, str]], Iterable[str] | None]] = {
            "cluster": self._cluster,
            "given": self._given,
            "plan": self._plan,
            "add-member": self._add_member,
            "kill": lambda words, _: self.world.kill(words[0]),
            "pause": lambda words, _: self.world.paused.update({words[0]: None}),
            "resume": lambda words, _: self.world.paused.pop(words[0]),
            "restart": lambda words, _: self.world.start(words[0]),
            "confirm-dead": self._confirm_dead,
            "ask": self._ask,
            "hold": lambda _, options: self.world.holds.append(matcher(options)),
            "drop": lambda _, options: self.world.drops.append(matcher(options)),
            "mute": self._mute,
            "release": lambda *_: self._release(),
            "undrop": lambda *_: self.world.drops.clear(),
            "unmute": lambda *_: setattr(self.world, "muted", text.NOISE),
            "deliver": lambda _, options: self._take(options, self.world.deliver),
            "lose": lambda _, options: self._take(options, self.world.in_flight.remove),
            "cut": self._cut,
            "heal": lambda *_: self.world.groups.clear(),
            "advance": lambda words, _: self.world.advance(self.world.now + int(words[0])),
            "settle": self._settle,
            "show": lambda words, _: show(self.world, words),
            "verbose": lambda words, _: setattr(self.world, "verbose", words[0] == "on"),
        }

    def run(self, command: str) -> list[str]:
        """Carry out one command; what was seen."""
        name, *rest = command.split()
        words = [word for word in rest if "=" not in word or word == "=>"]
        options = dict(word.split("=", 1) for word in rest if word not in words)
        shown = self.commands[name](words, options)
        trace, self.world.trace = self.world.trace, []
        return [*trace, *(shown if isinstance(shown, list) else [])]

    # Members --------------------------------------------------------------------------------------

    def _cluster(self, _: list[str], options: dict[str, str]) -> None:
        data, lite = int(options.pop("members")), int(options.pop("lite", "0"))
        in_turn = "names" in options
        letters = [chr(ord("A") + number) for number in range(data + lite)]
        names = options.pop("names").split(",") if in_turn else letters
        groups = options.pop("groups", "").split(",")
        persistent = options.pop("persistent", "no") == "yes"
        replicas = int(options.pop("replicas", "3"))
        config = Config(
            initial=tuple(Address(name) for name in (names[:1] if in_turn else names)),
            partition_count=int(options.pop("partitions", "1")),
            replica_count=replicas,
            backup_count=int(options.pop("backups", "1")),
            unnamed=NameSettings(backups=int(options.pop("kept", replicas - 1))),
        )
        self.world = world = World(configured(config, options))
        world.silent = True
        for number, name in enumerate(names):
            group = groups[number] if number < len(groups) else ""
            world.define(name, lite=number >= data, persistent=persistent, group=group)
            world.start(name)
            if in_turn:
                world.settle(QUIET_MS, LIMIT_MS)
        if not world.settle(QUIET_MS, LIMIT_MS):
            raise AssertionError("the cluster does not settle")
        self._begin_trace()

    def _begin_trace(self) -> None:
        self.world.silent = False
        self.world.zero = self.world.now

    def _given(self, words: list[str], _: dict[str, str]) -> None:
        partition, row = PartitionId(int(words[0].rstrip(":"))), parse_row(words[1])
        world = self.world
        world.silent = True
        master = world.master()
        changed = raised(master.table, level_of(world), master.context.promised, {partition: row})
        master.leadership.publisher.change(changed)
        world.step(master.me.name, events.Woke())
        world.settle(QUIET_MS, LIMIT_MS)
        self._begin_trace()

    def _plan(self, words: list[str], _: dict[str, str]) -> None:
        partition = PartitionId(int(words[0].rstrip(":")))
        now, target = parse_row(words[1]), parse_row(words[3])
        master = self.world.master()
        row = master.table.row(partition)
        if row.replicas != now:
            raise ValueError(f"the row is {text.replicas(row.replicas)}")
        if partition in master.leadership.execution.running and "force" not in words:
            raise ValueError("a migration of this partition runs already")
        steps = plan(now, target)
        for step in steps:
            self.world.say(f"planned {text.step(step)}")
        master.leadership.execution.schedule.add(partition, steps, row.owner)
        self.world.step(master.me.name, events.Woke())

    def _add_member(self, words: list[str], options: dict[str, str]) -> None:
        self.world.define(
            words[0],
            lite="lite" in words,
            persistent=options.get("persistent", "no") == "yes",
            group=options.get("group", ""),
        )
        self.world.start(words[0])

    def _confirm_dead(self, words: list[str], options: dict[str, str]) -> None:
        world, name = self.world, words[0]
        gone = world.members[name]
        ago = Millis(world.now - world.died_at[name])
        for other in [options["to"]] if "to" in options else list(world.nodes):
            world.step(other, events.ConfirmedDead(gone.id, gone.incarnation, ago))

    def _ask(self, words: list[str], options: dict[str, str]) -> None:
        self.requests += 1
        name, ask = words[0], m.Ask(words[1])
        request = m.Request(
            id=options.get("id", f"r{self.requests}"),
            ask=ask,
            state=ClusterState(words[2]) if ask is m.Ask.STATE else ClusterState.ACTIVE,
            level=int(words[2]) if ask is m.Ask.LEVEL else 0,
            wait_ms=Millis(int(options.get("wait", "0"))),
            stamp=self.world.nodes[name].table.stamp,
        )
        self.world.step(name, events.Asked(request))

    # Messages and time ----------------------------------------------------------------------------

    def _mute(self, _: list[str], options: dict[str, str]) -> None:
        kinds = tuple(TYPES[name] for name in options["type"].split(","))
        self.world.muted = (*self.world.muted, *kinds)

    def _release(self) -> None:
        self.world.holds.clear()
        for one in self.world.in_flight:
            one.held = False

    def _take(self, options: dict[str, str], act: Callable[[InFlight], None]) -> list[str]:
        fits = matcher(options)
        taken = [one for one in self.world.in_flight if fits(one)]
        taken = taken[: int(options.get("count", len(taken)))]
        for one in taken:
            act(one)
        return [] if taken else ["no such message"]

    def _cut(self, words: list[str], _: dict[str, str]) -> None:
        sides = " ".join(words).split("|")
        self.world.groups = [frozenset(side.split()) for side in sides]

    def _settle(self, _: list[str], options: dict[str, str]) -> list[str]:
        quiet = int(options.get("quiet", QUIET_MS))
        limit = int(options.get("limit", LIMIT_MS))
        return [] if self.world.settle(quiet, limit) else [f"not quiet after {limit} ms"]
