"""`holdfast dev` without processes: its members, its board, and the ways to show it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli.dev.board import Board, Held, Place, Sight
from holdfast.cli.dev.command import Output, seconds, show_for
from holdfast.cli.dev.members import Shape, flags_of, places
from holdfast.cli.dev.showing import Json, Lines, Screen, picture
from holdfast.cli.main import main
from holdfast.core.views import Kind
from holdfast.ids import Address, MemberId
from holdfast.shell.settings import load
from holdfast.shell.supervisor.happenings import Tell, What
from holdfast.shell.supervisor.layout import Ports, staggered
from holdfast.shell.supervisor.reports import Introduced


def board(members: int = 2, lite: int = 0, processes: int = 1) -> Board:
    shape = Shape(members, lite, processes)
    return Board(places(shape, staggered(Ports(), shape.count)))


def stay(place: Place, number: int = 1) -> Introduced:
    addresses = [Address(f"127.0.0.1:{port}") for port in place.ports.numbers]
    plain, cluster, http, link = addresses
    name, kind, group = place.name, place.kind.value, place.group
    id_ = MemberId(f"{name}-identity-{number}")
    return Introduced(id_, number, name, kind, group, link, plain, cluster, http)


def ready(some: Board, *tellers: Json | Lines) -> None:
    """Every member is started and comes to serve."""
    for index, place in enumerate(some.places):
        for what, detail in ((What.STARTED, f"pid {100 + index}"), (What.READY, "")):
            tell = Tell(what, index, detail)
            some.hear(tell, stay(place))
            for teller in tellers:
                teller.told(tell)


def sight(*, safe: bool = True, state: str = "ACTIVE", **more: object) -> Sight:
    given: dict[str, object] = {
        "pending": "",
        "master": MemberId("m1-identity-1"),
        "reasons": () if safe else ("3 promised copies are held by nobody",),
        "moving": "",
        "held": {MemberId("m1-identity-1"): Held(136, 135, 1234.5)},
    }
    given.update(more)
    return Sight(state=state, safe=safe, **given)  # type: ignore[arg-type]


def drawn(some: Board) -> str:
    page = io.StringIO()
    Console(file=page, width=180).print(picture(some))
    return page.getvalue()


# Members ------------------------------------------------------------------------------------------


def test_names_and_failure_domains() -> None:
    named = [(place.name, place.group, place.kind) for place in board(2, 1).places]
    assert named == [
        ("m1", "m1", Kind.DATA),
        ("m2", "m2", Kind.DATA),
        ("lite1", "lite1", Kind.LITE),
    ]
    several = [(place.name, place.group) for place in board(1, 1, 2).places]
    assert several == [
        ("m1-0", "m1"),
        ("m1-1", "m1"),
        ("lite1-0", "lite1"),
        ("lite1-1", "lite1"),
    ]


def test_flags_are_settings_that_can_work() -> None:
    """Data members found the cluster; who may not found says so."""
    every = board(2, 1).places
    settings = load(None, {}, flags_of(every, 2, may_found=False))
    assert settings.core.initial == (Address("127.0.0.1:7380"), Address("127.0.0.1:7390"))
    assert not settings.core.may_found
    assert settings.options.kind is Kind.LITE
    assert settings.options.port_plain == 6399
    assert load(None, {}, flags_of(every, 0, may_found=True)).core.may_found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("1.5s", 1.5)],
)
def test_spans(text: str, wanted: float) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kill-every", "often"], "'often' is no span of time"),
        (["--kill-every", "0s"], "'0s' is no span of time"),
        (["--kill-every", "-3s"], "'-3s' is no span of time"),
        (["--members", "0"], "greater than or equal to 1"),
        (["--members", "40", "--processes", "2"], "80 processes are more than the 64"),
        (["--config", "/does/not/exist"], "No such file"),
        (["--output", "yaml"], "yaml"),
    ],
)
def test_what_makes_no_sense_starts_nothing(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dev", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_settings_of_a_file_are_checked_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("backup_count = 7\n", encoding="utf-8")
    assert main(["dev", "--config", str(file)]) == 2
    assert "backup_count = 7" in capsys.readouterr().err


# The board ----------------------------------------------------------------------------------------


def test_the_state_of_a_place_is_what_was_told_last() -> None:
    some = board(1)
    (place,) = some.places
    seen = []
    for what, detail in (
        (What.STARTED, "pid 7"),
        (What.INTRODUCED, ""),
        (What.WAITING, "it has found no cluster yet"),
        (What.READY, ""),
        (What.KILLED, ""),
        (What.DIED, "signal SIGKILL"),
        (What.RESTARTS, "in 500 ms"),
        (What.CONFIRMED, ""),
    ):
        some.hear(Tell(what, 0, detail), None)
        seen.append((place.state, place.note))
    assert seen == [
        ("starting", ""),
        ("joining", ""),
        ("joining", "it has found no cluster yet"),
        ("ready", ""),
        ("ready", ""),
        ("dead", ""),
        ("restarting", "in 500 ms"),
        ("restarting", "in 500 ms"),
    ]
    assert (place.pid, place.deaths) == (7, 1)


def test_who_may_be_killed() -> None:
    some = board(2)
    assert some.not_to_be_killed() == "m1 is starting"
    ready(some)
    assert some.not_to_be_killed() == "the cluster has not been seen yet"
    some.problem = "no answer"
    assert some.not_to_be_killed() == "no answer"
    some.sight = sight(safe=False)
    assert some.not_to_be_killed() == "it is not safe: 3 promised copies are held by nobody"
    some.sight = sight()
    assert some.not_to_be_killed() == ""


# Showing ------------------------------------------------------------------------------------------


def test_the_table_before_there_is_a_cluster() -> None:
    page = drawn(board(1, 1))
    assert "the cluster is being formed" in page
    assert page.count("starting") == 2


def test_the_table_of_a_cluster() -> None:
    some = board(2)
    ready(some)
    some.sight = sight(moving="moving: 3 of 9 migrations done")
    page = drawn(some)
    (row,) = [line for line in page.splitlines() if "m1-ident" in line]
    cells = [cell.strip() for cell in row.split("│")[1:-1]]
    assert cells == [
        "m1",
        "m1-ident",
        "data",
        "ready, master",
        *map(str, Ports().numbers),
        "136",
        "135",
        "1,234",
    ]
    assert "ACTIVE · safe · moving: 3 of 9 migrations done" in page


def test_the_table_says_what_is_wrong() -> None:
    some = board(2)
    ready(some)
    some.hear(Tell(What.WAITING, 1, "it has no lease"), None)
    some.sight = sight(safe=False, pending="FROZEN waits: 3 migrations")
    some.problem = "m1 does not answer"
    page = drawn(some)
    assert "joining: it has no lease" in page
    assert "ACTIVE · FROZEN waits: 3 migrations · not safe: 3 promised copies" in page
    assert "as it was before: m1 does not answer" in page


def test_the_table_when_all_is_over() -> None:
    some = board(2)
    ready(some)
    some.sight = sight()
    for index in range(2):
        some.hear(Tell(What.LEFT, index, "exit code 0"), None)
    assert "the cluster is gone" in drawn(some)


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    some = board(2)
    ready(some, Lines(some, "127.0.0.1"))
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == ["m1 is started (pid 100)", "m1 is ready"]
    assert "The cluster is ready: m1, m2." in out
    assert any("redis-cli -p 6379 " in line for line in out)
    assert any("redis-cli -c -p 7379 " in line for line in out)
    assert any("http://127.0.0.1:8080/" in line for line in out)


def test_what_a_dead_member_printed_last_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """But not of one that was killed: it had no say in it."""
    some = board(1)
    some.places[0].last_lines = ["out of luck"]
    for detail in ("signal SIGKILL", "exit code 5"):
        Lines(some, "127.0.0.1").told(Tell(What.DIED, 0, detail))
    out = capsys.readouterr().out.splitlines()
    assert out == ["m1 died (signal SIGKILL)", "m1 died (exit code 5)", "  m1 | out of luck"]


def test_the_screen_has_lines_above_and_the_table_below() -> None:
    page = io.StringIO()
    some = board(2)
    screen = Screen(some, "127.0.0.1", Console(file=page, width=150, force_terminal=True))
    screen.remark("port 6379 is taken, plain is on 40000")
    ready(some, screen)
    screen.close()
    shown = page.getvalue()
    assert (
        shown.index("port 6379 is taken") < shown.index("The cluster is ready") < shown.rindex("m2")
    )


def test_json_begins_with_all_members(capsys: pytest.CaptureFixture[str]) -> None:
    some = board(1, 1)
    show = Json(some, "127.0.0.1")
    show.remark("port 6379 is taken")
    ready(some, show)
    for tell in (Tell(What.DIED, 0, "exit code 5"), Tell(What.READY, 0)):
        some.hear(tell, None)
        show.told(tell)
    show.remark("nobody is killed yet")
    captured = capsys.readouterr()
    first, *events = map(json.loads, captured.out.splitlines())
    assert first["event"] == "cluster"
    assert first["members"][0] == {
        "name": "m1",
        "id": "m1-identity-1",
        "incarnation": 1,
        "kind": "data",
        "group": "m1",
        "pid": 100,
        "host": "127.0.0.1",
        "ports": {"plain": 6379, "cluster": 7379, "http": 8080, "member": 7380},
    }
    assert [each["kind"] for each in first["members"]] == ["data", "lite"]
    assert [(each["event"], each["detail"]) for each in events] == [
        ("died", "exit code 5"),
        ("ready", ""),
        ("remark", "nobody is killed yet"),
    ]
    assert "port 6379 is taken" in captured.err


def test_what_is_shown_where() -> None:
    """No terminal, no table."""
    some = board(1)
    assert isinstance(show_for(Output.JSON, some), Json)
    assert type(show_for(Output.TEXT, some)) is Lines
