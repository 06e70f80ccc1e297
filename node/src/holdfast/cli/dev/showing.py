"""What `holdfast dev` shows: a live table on a terminal, lines elsewhere, JSON for scripts.

Standard output is what was asked for. With JSON nothing else is there: the first line has all
members once every one is ready, each later line one event. What happens before that, and what a
member printed last before it died, is on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from signal import SIGKILL
from typing import Any, Protocol

import msgspec
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli.dev.board import Board, Place
from holdfast.shell.supervisor.happenings import Tell, What
from holdfast.shell.supervisor.policy import describe
from holdfast.shell.supervisor.words import sentence

ID_SHOWN = 8
"""Letters of an id that tell members apart for people."""
QUIET = frozenset({What.INTRODUCED})
"""What people see in the table anyway."""
LAST_WORDS = frozenset({What.DIED, What.REFUSED})
"""After these, what the process printed last is shown; a killed one had no say in it."""


class Show(Protocol):
    """One way to show a board."""

    def remark(self, text: str) -> None:
        """Something that is to be known, of no member."""

    def told(self, tell: Tell) -> None:
        """Something happened; the board knows it already."""

    def refresh(self) -> None:
        """The board may have changed."""

    def close(self) -> None:
        """The end."""


def last_words(tell: Tell, place: Place) -> Iterator[str]:
    """What a process printed last, if that may tell why it ended."""
    if tell.what in LAST_WORDS and tell.detail != describe(-SIGKILL):
        for line in place.last_lines:
            yield f"  {place.name} | {line}"


def how_to_connect(board: Board, host: str) -> Iterator[str]:
    """What to type, once the cluster is there."""
    first = board.places[0].ports
    names = ", ".join(place.name for place in board.places)
    yield f"The cluster is ready: {names}."
    yield f"  redis-cli -p {first.plain}      any key at any member"
    yield f"  redis-cli -c -p {first.cluster}   as a cluster: keys at their owners"
    yield f"  http://{host}:{first.http}/docs   the HTTP interface; also /metrics"
    yield "ctrl-C ends it and all its members."


class Lines:
    """One line an event, for people who read a log."""

    def __init__(self, board: Board, host: str) -> None:
        self.board = board
        self.host = host
        self._welcomed = False

    def say(self, text: str) -> None:
        """One line on standard output."""
        typer.echo(text)

    def remark(self, text: str) -> None:
        """A line as well."""
        self.say(text)

    def told(self, tell: Tell) -> None:
        """A sentence, and what a dead process printed last."""
        place = self.board.places[tell.child]
        if tell.what not in QUIET:
            self.say(sentence(tell, place.name))
        for line in last_words(tell, place):
            self.say(line)
        if self.board.all_ready and not self._welcomed:
            self._welcomed = True
            for line in how_to_connect(self.board, self.host):
                self.say(line)

    def refresh(self) -> None:
        """Numbers that move are no event."""

    def close(self) -> None:
        """Nothing is open."""


class Screen(Lines):
    """The same lines, with a table below them that is always up to date."""

    def __init__(self, board: Board, host: str, console: Console) -> None:
        super().__init__(board, host)
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()
        self.refresh()

    def say(self, text: str) -> None:
        """Above the table."""
        self._live.console.print(Text(text))

    def told(self, tell: Tell) -> None:
        """What is alarming is so to the eye."""
        super().told(tell)
        self.refresh()

    def refresh(self) -> None:
        """Draw the table anew."""
        self._live.update(picture(self.board), refresh=True)

    def close(self) -> None:
        """The last picture stays."""
        self._live.stop()


def picture(board: Board) -> Group:
    """The table of members and a line about the cluster."""
    table = Table(title_justify="left")
    for heading in ("name", "id", "kind", "state", "plain", "cluster", "http", "member"):
        table.add_column(heading, no_wrap=heading in ("name", "id"))
    for heading in ("owned", "backups", "ops/s"):
        table.add_column(heading, justify="right")
    for place in board.places:
        table.add_row(*_row(board, place))
    return Group(table, _about(board))


def _row(board: Board, place: Place) -> Iterator[str | Text]:
    held, who, ports = board.held(place), place.who, place.ports
    yield place.name
    yield who.id[:ID_SHOWN] if who is not None else ""
    yield place.kind.value
    text = f"{place.state}: {place.note}" if place.note else place.state
    master = board.sight is not None and who is not None and board.sight.master == who.id
    if place.ready and master:
        text = "ready, master"
    yield Text(text, style="green" if place.ready else "yellow")
    for number in (ports.plain, ports.cluster, ports.http, ports.link):
        yield str(number)
    yield str(held.owned) if held is not None else ""
    yield str(held.backups) if held is not None else ""
    known = held is not None and held.operations is not None
    yield f"{held.operations:,.0f}" if known and held is not None else ""


def _about(board: Board) -> Text:
    sight = board.sight
    if all(place.state == "gone" for place in board.places):
        return Text("the cluster is gone")
    if sight is None:
        return Text(board.problem or "the cluster is being formed", style="yellow")
    parts = [sight.state]
    if sight.pending:
        parts.append(sight.pending)
    parts.append("safe" if sight.safe else f"not safe: {'; '.join(sight.reasons)}")
    parts.append(sight.moving or "no migrations")
    if board.problem:
        parts.append(f"as it was before: {board.problem}")
    return Text(" · ".join(parts), style="green" if sight.safe and not board.problem else "yellow")


class Json:
    """For scripts: first every member, then one line an event."""

    def __init__(self, board: Board, host: str) -> None:
        self.board = board
        self.host = host
        self._ready = False

    def remark(self, text: str) -> None:
        """An event of no member."""
        if self._ready:
            self._write({"event": "remark", "detail": text})
        else:
            typer.echo(text, err=True)

    def told(self, tell: Tell) -> None:
        """An event, or the first line, which the last `ready` becomes."""
        place = self.board.places[tell.child]
        if not self._ready:
            typer.echo(sentence(tell, place.name), err=True)
        for line in last_words(tell, place):
            typer.echo(line, err=True)
        if self._ready:
            self._write({"event": tell.what.value, "detail": tell.detail, **self._member(place)})
        elif self.board.all_ready:
            self._ready = True
            members = [self._member(each) for each in self.board.places]
            self._write({"event": "cluster", "members": members})

    def _member(self, place: Place) -> dict[str, Any]:
        ports = place.ports
        return {
            "name": place.name,
            "id": place.who.id if place.who is not None else "",
            "incarnation": place.who.incarnation if place.who is not None else 0,
            "kind": place.kind.value,
            "group": place.group,
            "pid": place.pid,
            "host": self.host,
            "ports": {
                "plain": ports.plain,
                "cluster": ports.cluster,
                "http": ports.http,
                "member": ports.link,
            },
        }

    def _write(self, line: dict[str, Any]) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
        sys.stdout.buffer.flush()

    def refresh(self) -> None:
        """Numbers that move are no event."""

    def close(self) -> None:
        """Nothing is open."""
