"""The words of scenario commands: rows, settings, and which messages are meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from holdfast.core import messages as m
from holdfast.core.config import Config
from holdfast.ids import MemberId, Replicas
from tests.core import scenario_text as text
from tests.core.scenario_parts import InFlight
from tests.core.scenario_world import World

TYPES = {kind.__name__: kind for kind in text.NOISE + tuple(text.DESCRIBE)} | {
    kind.__name__: kind for kind in (m.PublicationAck, m.VersionsRequest, m.Versions)
}


def configured(config: Config, options: dict[str, str]) -> Config:
    """The configuration with the fields that a scenario names."""
    known = {field.name for field in fields(Config)}
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"no setting is called {name}")
        word: Any = int(value) if value.isdigit() else value
        config = replace(config, **{name: word})
    return config


def level_of(world: World) -> int:
    """The cluster's compatibility level."""
    view = world.master().view
    assert view is not None
    return view.level


def parse_row(words: str) -> Replicas:
    """`A,-,C`."""
    return tuple(None if name == "-" else MemberId(name) for name in words.split(","))


def matcher(options: dict[str, str]) -> Callable[[InFlight], bool]:
    """Whether a message is of these types, from here, to there."""
    kinds = tuple(TYPES[name] for name in options["type"].split(",")) if "type" in options else ()

    def fits(one: InFlight) -> bool:
        if kinds and not isinstance(one.message, kinds):
            return False
        if one.sender not in options.get("from", one.sender).split(","):
            return False
        return one.to in options.get("to", one.to).split(",")

    return fits
