"""What `redis-benchmark` prints, as it was printed."""

from __future__ import annotations

import pytest
from bench.load_tool import Speed, parse

HEAD = (
    '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",'
    '"p99_latency_ms","max_latency_ms"\n'
)
PLAIN = (
    HEAD
    + '"SET","14768.87","3.162","0.280","1.735","8.367","12.223","170.495"\n'
    + '"GET","33489.62","1.293","0.224","1.047","1.623","8.919","68.927"\n'
)
CLUSTER = (
    "Cluster has 3 master nodes:\n\nMaster 0: abc 127.0.0.1:7001\n\n"
    + HEAD
    + '"SET","23392.5","1.0","0.1","0.9","5.0","10.463","11.0"\n'
)
COMMAND = HEAD + '"GET {bench}:__rand_int__","500.00","1.0","0.1","0.9","5.0","6.0","11.0"\n'


def test_each_test_is_found_under_its_name() -> None:
    found = parse(PLAIN)
    assert found["SET"] == Speed(14_768.87, 1.735, 12.223, 170.495)
    assert list(found) == ["SET", "GET"]


def test_remarks_about_a_cluster_are_no_results() -> None:
    assert parse(CLUSTER)["SET"].rate == 23_392.5


def test_a_command_is_a_test_of_its_own_name() -> None:
    assert parse(COMMAND)["GET {bench}:__rand_int__"].p99_ms == 6.0


@pytest.mark.parametrize("text", ["", "Could not connect to Redis\n", HEAD])
def test_no_results_are_an_error_and_no_zero(text: str) -> None:
    with pytest.raises(ValueError, match="no results"):
        parse(text)
