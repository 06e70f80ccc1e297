"""The story of a run: its last steps, formatted only when somebody wants to read them.

An entry is a tuple of what happened, kept as it is; a run that ends well never formats one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from holdfast.core.effects import Effect
from holdfast.core.events import Event, Gathered, Received
from holdfast.core.messages import Migration, Origin
from holdfast.core.table import Row
from holdfast.core.views import Member, View
from holdfast.ids import Replicas

ENTRIES_MAX: Final = 2_000
TAIL: Final = 40

Entry = tuple[int, str, Event | str, Sequence[Effect]]


class Story:
    """What happened last, oldest first."""

    __slots__ = ("_entries", "_listener")

    def __init__(self, listener: Callable[[str], None] | None = None) -> None:
        self._entries: deque[Entry] = deque(maxlen=ENTRIES_MAX)
        self._listener = listener
        """Gets each entry, formatted, as it happens (`--trace`)."""

    def tell(
        self, now_us: int, who: str, what: Event | str, effects: Sequence[Effect] = ()
    ) -> None:
        """Add an entry."""
        entry = (now_us, who, what, effects)
        self._entries.append(entry)
        if self._listener is not None:
            self._listener(format_entry(entry))

    def tail(self, count: int = TAIL) -> tuple[str, ...]:
        """The last entries, one string each."""
        entries = list(self._entries)[-count:]
        return tuple(format_entry(entry) for entry in entries)


def format_entry(entry: Entry) -> str:
    """One step: when, who, what came in, and below it what went out."""
    now_us, who, what, effects = entry
    event = what if isinstance(what, str) else format_event(what)
    lines = [f"{now_us / 1_000_000:10.6f} {who:<8} {event}"]
    lines += [f"{'':19}   → {describe(effect)}" for effect in effects]
    return "\n".join(lines)


def format_event(event: Event) -> str:
    """What came in."""
    if isinstance(event, Received):
        return f"← {describe(event.message)} from {describe(event.origin)}"
    if isinstance(event, Gathered):
        return "\n".join(f"{format_event(each)}" for each in event.received)
    return f"· {describe(event)}"


def describe(value: Any) -> str:
    """A short text for anything that travels; the rest by its fields."""
    match value:
        case None:
            return "-"
        case Origin():
            return f"{value.id}/{value.incarnation}"
        case Member():
            drain = "" if value.drain.value == "none" else f" {value.drain}"
            return f"{value.id}/{value.incarnation}({value.kind} {value.group}{drain})"
        case View():
            return _describe_view(value)
        case Row():
            return f"p{value.partition}v{value.version}{_describe_row(value.replicas)}"
        case Migration():
            before, after = _describe_row(value.before), _describe_row(value.after)
            number = f"{value.id.term}.{value.id.sequence}"
            return f"migration {number} p{value.partition}v{value.version_before} {before}→{after}"
        case Enum():
            return str(value.value)
        case tuple():
            return f"({', '.join(describe(item) for item in value)})"
    if is_dataclass(value):
        inner = ", ".join(f"{f.name}={describe(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__name__}({inner})"
    return str(value)


def _describe_view(view: View) -> str:
    members = " ".join(describe(member) for member in view.members)
    flags = " recovering" if view.recovering else ""
    return (
        f"view {view.term}.{view.version} of {view.cluster} [{members}] master {view.master}"
        f" {view.state} level {view.level}{flags}"
    )


def _describe_row(replicas: Replicas) -> str:
    return f"[{','.join(member or '-' for member in replicas)}]"
