"""`holdfast dev --persist`: whose directory it is, and what is kept there beside members' files."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.dev.board import Board
from holdfast.cli.dev.command import flags_in
from holdfast.cli.dev.members import Shape, places
from holdfast.cli.dev.persisting import Home
from holdfast.cli.main import main
from holdfast.errors import ConfigurationError
from holdfast.shell.settings import load
from holdfast.shell.supervisor.layout import Ports, staggered

SHAPE = Shape(3, 1, 1)


def refusal(directory: Path, shape: Shape = SHAPE) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Home(directory, shape)
    return caught.value.message


def test_it_is_for_one_command_at_a_time(tmp_path: Path) -> None:
    home = Home(tmp_path / "new" / "one", SHAPE)
    assert "another holdfast dev runs the cluster" in refusal(tmp_path / "new" / "one")
    home.close()
    Home(tmp_path / "new" / "one", SHAPE).close()


def test_the_shape_of_the_first_start_holds(tmp_path: Path) -> None:
    Home(tmp_path, SHAPE).close()
    told = refusal(tmp_path, Shape(2, 1, 1))
    assert told.endswith("start it with --members 3 --lite 1 --processes 1")
    Home(tmp_path, SHAPE).close()


@pytest.mark.parametrize("content", ["", "[]", '{"members": 3}', '{"members": "x"}'])
def test_a_shape_that_nobody_wrote_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "cluster.json").write_text(content)
    assert str(tmp_path / "cluster.json") in refusal(tmp_path)


def test_what_is_no_directory_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["dev", "--persist", str(tmp_path / "file")]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"holdfast: --persist {tmp_path / 'file'}: ")
    assert told.count("\n") == 1


def test_each_member_has_a_directory_and_hands_nothing_over(tmp_path: Path) -> None:
    board = Board(places(SHAPE, staggered(Ports(), SHAPE.count)))
    home = Home(tmp_path, SHAPE)
    found = [load(None, {}, flags_in(board, home, each, may_found=True)) for each in range(4)]
    home.close()
    names = ("m1", "m2", "m3", "lite1")
    assert [each.options.data_dir for each in found] == [str(tmp_path / name) for name in names]
    assert not any(each.options.hands_over for each in found)
    thrown_away = load(None, {}, flags_in(board, None, 0, may_found=True)).options
    assert (thrown_away.data_dir, thrown_away.hands_over) == ("", True)
