"""The benchmark of seed 003 runs, and counts exactly what goes over the network."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.cli.main import main
from holdfast.cli.rejoin import Row, Tables, show

KEYS = 200


def test_what_has_to_be_sent_is_sent_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything to who lost its files, the tenth that was changed to who kept them, or nothing."""
    assert main(["bench", "rejoin", "--entries", str(KEYS), "--output", "json"]) == 0
    tables = msgspec.json.decode(capsys.readouterr().out, type=Tables)
    assert [row.restart_records for row in tables.read_only] == [KEYS, 0, 0]
    assert [row.restart_records for row in tables.mutated] == [KEYS, KEYS // 10, KEYS // 10]
    for row in (*tables.read_only, *tables.mutated):
        assert row.kill_records == 0
        assert row.restart_migrations > 0
        assert 0 < row.sync_seconds < row.restart_seconds


def test_a_table_has_the_form_of_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    show("of the seed", [Row("full", 340, 5, 1.2, 475, 1_000, 250.0, 200.0),
                         Row("journal too", 340, 0, 0.5, 410, 10, 1.0, 0.5)])  # fmt: skip
    told = capsys.readouterr().out
    for text in ("of the seed", "475 / 1,000", "250.0 sec", "410 / 10", "records: 1.0% of full"):
        assert text in told
    assert "time: 250.0x faster than full, the sync 400.0x" in told
