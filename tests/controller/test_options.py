"""What an operator is started with."""

from __future__ import annotations

import json
import logging

import pytest

from holdfast_operator.__main__ import JsonLines, set_up_logs
from holdfast_operator.options import parse


def test_flags_beat_the_environment_which_beats_defaults() -> None:
    environment = {
        "HOLDFAST_OPERATOR_IMAGE": "env",
        "HOLDFAST_OPERATOR_LEASE": "env",
        "HOLDFAST_OPERATOR_NODES": "true",
        "HOLDFAST_OPERATOR_NAMESPACES": "a,b",
    }
    found = parse(["--image", "flag"], environment)
    assert (found.image, found.lease, found.nodes) == ("flag", "env", True)
    assert found.namespaces == ("a", "b")
    plain = parse([], {})
    assert (plain.namespaces, plain.nodes, plain.dry_run) == ((), False, False)
    assert (plain.port, plain.webhook_port) == (8081, 9443)


def test_bad_input_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--nonsense"], {})
    assert ended.value.code == 2
    assert "--nonsense" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        parse(["--port", "http"], {})
    assert ended.value.code == 2


def test_logs_are_lines_of_json() -> None:
    record = logging.LogRecord("holdfast", logging.INFO, "f", 1, "%s went", ("it",), None)
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["message"], line["logger"]) == ("info", "it went", "holdfast")
    assert line["at"].endswith("Z")
    record.exc_info = (ValueError, ValueError("why"), None)
    assert "ValueError: why" in json.loads(JsonLines().format(record))["error"]


def test_logs_can_be_text() -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        set_up_logs("warning", "text")
        assert root.level == logging.WARNING
        assert not isinstance(root.handlers[0].formatter, JsonLines)
        set_up_logs("info", "json")
        assert isinstance(root.handlers[0].formatter, JsonLines)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
