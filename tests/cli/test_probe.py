"""`holdfast-probe`: green only if every port says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from holdfast.cli.probe import main, probe


class Answers(BaseHTTPRequestHandler):
    """Ready is 503, live is 200."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz/live" else 503)
        self.end_headers()
        self.wfile.write(b"no lease")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nothing on the terminal."""


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_all_ports_have_to_say_so(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(["live", str(port)]) == 0
    assert probe(["ready", str(port)]) == 1
    assert f"port {port}: no lease" in capsys.readouterr().err


def test_silence_is_no_yes(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(["live", str(port), "1"]) == 1
    assert "port 1: " in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["live"], ["dead", "8080"], ["live", "http"]])
def test_bad_input_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(arguments) == 2
    assert "usage" in capsys.readouterr().err


def test_exit_code_is_the_answer(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr("sys.argv", ["holdfast-probe", "live", str(port)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
