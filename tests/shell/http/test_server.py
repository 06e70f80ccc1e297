"""The server answers probes at once, and the rest as soon as it is loaded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.shell.http.clusters import ALONE, Processes
from tests.shell.waiting import wait_until


def test_requests_that_come_before_the_rest_is_loaded_wait_for_it(tmp_path: Path) -> None:
    """They come before the member is ready: it waits for founders that do not exist."""
    processes = Processes(tmp_path, settings=f"initial = ['127.0.0.1:9']\n{ALONE}")
    try:
        member = processes.start("one")
        wait_until(lambda: not member.is_ready(), "it answers")
        assert member.get("/metrics").status_code == 200
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: member.get("/v1/members"), range(8)))
        assert {each.status_code for each in answers} == {503}
        assert {each.json()["detail"] for each in answers} == {"this member is in no cluster yet"}
        assert member.get("/healthz/safe").status_code == 503
        assert member.get("/openapi.json").json()["info"]["title"] == "Holdfast"
    finally:
        processes.end()


def test_member_that_ends_while_the_rest_is_loaded_ends_in_good_order(tmp_path: Path) -> None:
    processes = Processes(tmp_path, settings=ALONE)
    try:
        member = processes.start("one")
        member.wait_ready()
        member.terminate()
        assert member.code() == 0
    finally:
        processes.end()
