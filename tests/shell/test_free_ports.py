"""Ports for processes that are told theirs before they start."""

from __future__ import annotations

import socket
from itertools import count

import pytest

from holdfast.shell import free_ports as module
from holdfast.shell.free_ports import CALM, free_ports, is_free

HOST = "127.0.0.1"


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(HOST, port)
    assert is_free(HOST, port)


def test_they_differ_and_are_none_that_the_system_gives() -> None:
    found = free_ports(HOST, 20)
    assert len(set(found)) == 20
    assert set(found) <= set(CALM)


def test_none_is_given_twice_in_a_row_to_those_who_ask_at_once() -> None:
    assert free_ports(HOST, 5) != free_ports(HOST, 5)


def test_that_there_are_too_few_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count()
    monkeypatch.setattr(module, "is_free", lambda *_: next(asked) < 2)
    with pytest.raises(OSError, match="3 ports are needed, 2 are free"):
        free_ports(HOST, 3)
