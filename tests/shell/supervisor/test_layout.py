"""Ports of processes that run side by side."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError
from holdfast.shell.supervisor.layout import (
    PROCESSES_MAX,
    Ports,
    choose,
    staggered,
)


def test_the_first_process_has_the_configured_ports() -> None:
    assert staggered(Ports(), 3) == (
        Ports(6379, 7379, 8080, 7380),
        Ports(6389, 7389, 8090, 7390),
        Ports(6399, 7399, 8100, 7400),
    )


def test_any_port_stays_any_port() -> None:
    assert staggered(Ports(0, 0, 0, 0), 2) == (Ports(0, 0, 0, 0), Ports(0, 0, 0, 0))


def test_the_defaults_suffice_for_all_processes() -> None:
    numbers = [n for ports in staggered(Ports(), PROCESSES_MAX) for n in ports.numbers]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("ports", "processes", "said"),
    [
        (Ports(), 0, "processes must be 1 to 64, not 0"),
        (Ports(), 65, "processes must be 1 to 64, not 65"),
        (Ports(plain=65_530), 2, "plain of process 1 would be 65540, more than 65535"),
        (
            Ports(plain=7000, cluster=7010),
            2,
            "plain of process 1 and cluster of process 0 would both be 7010",
        ),
        (Ports(http=6379), 1, "http of process 0 and plain of process 0 would both be 6379"),
    ],
)
def test_ports_that_can_not_be(ports: Ports, processes: int, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        staggered(ports, processes)
    assert said in caught.value.reasons


def test_usual_ports_where_they_are_free() -> None:
    choice = choose(2, lambda _: True, lambda: 1)
    assert choice.ports == staggered(Ports(), 2)
    assert choice.remarks == ()


@given(st.sets(st.sampled_from([n for p in staggered(Ports(), 3) for n in p.numbers])))
def test_taken_ports_are_replaced_and_the_first_ones_are_told(taken: set[int]) -> None:
    fresh = (n for n in count(8090) if n not in taken)  # also what the next one would have
    choice = choose(3, lambda number: number not in taken, lambda: next(fresh))
    numbers = [number for ports in choice.ports for number in ports.numbers]
    assert len(set(numbers)) == 12
    assert taken.isdisjoint(numbers)
    assert len(choice.remarks) == len(taken & set(Ports().numbers))


def test_the_remark_says_both_ports() -> None:
    choice = choose(1, lambda number: number != 6379, lambda: 40_000)
    assert choice.remarks == ("port 6379 is taken, plain is on 40000",)
