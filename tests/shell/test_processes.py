"""Real processes, sockets and clients: a cluster forms, serves, loses members, and no write."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from holdfast.shell.lifecycle import Exit
from tests.shell.certificates import Authority
from tests.shell.processes import Grid, Process, ask
from tests.shell.waiting import wait_until

KEYS = [f"users:{number}" for number in range(60)]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """Three members that serve."""
    grid = Grid(tmp_path_factory.mktemp("grid"))
    try:
        grid.form()
        yield grid
    finally:
        grid.end()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Grid]:
    """One that a test may break."""
    grid = Grid(tmp_path)
    try:
        yield grid
    finally:
        grid.end()


def founders(grid: Grid) -> list[Process]:
    return grid.members[:3]


def test_a_cluster_client_finds_every_key(grid: Grid) -> None:
    port = founders(grid)[0].port("cluster")
    with redis.RedisCluster(host="127.0.0.1", port=port, protocol=2) as client:
        for key in KEYS:
            assert client.set(key, f"value of {key}")
        assert [client.get(key) for key in KEYS] == [f"value of {key}".encode() for key in KEYS]
        assert len(client.get_primaries()) == 3


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")
def test_redis_cli_talks_to_every_member(grid: Grid) -> None:
    for member in founders(grid):
        port = str(member.port("cluster"))
        for command, expected in ((["SET", "cli", port], "OK"), (["GET", "cli"], port)):
            done = subprocess.run(
                ["redis-cli", "-c", "-p", port, *command],
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            )
            assert done.stdout.strip() == expected


def test_a_member_that_is_told_to_stop_hands_over_and_leaves(grid: Grid) -> None:
    """1. A fourth joins and takes partitions. 2. It is told to stop. 3. Nothing is missing."""
    for key in KEYS:
        assert ask(founders(grid), "SET", key, "kept") in (True, b"OK")
    fourth = grid.start("fourth")
    fourth.wait_ready()
    address = str(fourth.port("cluster"))
    wait_until(
        lambda: address in str(ask(founders(grid), "CLUSTER SLOTS")), "the fourth owns partitions"
    )
    fourth.terminate()
    assert fourth.code() == Exit.OK
    assert fourth.says("has left the cluster in good order")
    assert [ask(founders(grid), "GET", key) for key in KEYS] == [b"kept"] * len(KEYS)


def test_a_long_value_has_a_backup(grid: Grid) -> None:
    """It is written when the backup has it, in one frame."""
    value = b"x" * (20 << 20)
    port = founders(grid)[0].port("cluster")
    with redis.RedisCluster(host="127.0.0.1", port=port, protocol=2, socket_timeout=30) as client:
        assert client.set("long", value)
        assert client.get("long") == value
        assert client.delete("long") == 1


def test_another_secret_is_refused(grid: Grid) -> None:
    other = grid.folder / "other"
    other.write_text("another secret, long enough")
    stranger = grid.start("stranger", secret_file=str(other))
    assert stranger.code() == Exit.REFUSED
    assert stranger.says("no other member has a link with this one: the other side refuses: the")
    address = stranger.told("link")
    wait_until(
        lambda: any(
            each.says(f"no link with {address}: the cluster secret of") for each in founders(grid)
        ),
        "the others say so, too",
    )
    assert all(each.popen.poll() is None for each in founders(grid))


def test_another_cluster_is_refused(grid: Grid) -> None:
    lost = grid.start("lost", cluster_name="green")
    assert lost.code() == Exit.REFUSED
    assert lost.says("is of cluster holdfast, not green")


def test_another_number_of_partitions_is_refused(grid: Grid) -> None:
    other = grid.start("other", partition_count="63", may_found="false")
    assert other.code() == Exit.REFUSED
    assert other.says("the cluster has 64 partitions of 7 replicas, the member 63 of 7")


def test_a_port_that_is_taken_ends_the_start(grid: Grid) -> None:
    taken = founders(grid)[0].port()
    late = grid.start("late", port_plain=str(taken))
    assert late.code() == Exit.PORT_IN_USE
    assert late.says(
        f"port_plain: 127.0.0.1:{taken} can't be listened on: another process listens there"
    )


def test_settings_that_can_not_work_end_the_start(grid: Grid) -> None:
    wrong = grid.start("wrong", kind="litte", lease_ms="1", port_member="99999")
    assert wrong.code() == Exit.BAD_SETTINGS
    told = wrong.log.read_text(encoding="utf-8")
    assert "kind = 'litte'" in told
    assert "port_member = '99999'" in told
    assert "Traceback" not in told


def test_a_directory_that_can_not_be_one_ends_the_start(own: Grid) -> None:
    """It does not come right by itself: a supervisor must not try again."""
    place = own.folder / "place"
    place.touch()
    stranger = own.start("stranger", data_dir=str(place))
    assert stranger.code() == Exit.FILES
    assert stranger.says(f"data_dir = '{place}': {place}: ")


def test_who_can_not_be_reached_is_told_while_a_cluster_is_looked_for(own: Grid) -> None:
    lonely = own.start("lonely", may_found="false")
    told = f"not ready: in no cluster yet; {own.initial[0]} can't be reached: Connection refused"
    wait_until(lambda: lonely.says(told), "it says whom it does not reach")


def test_a_member_that_was_in_no_cluster_ends_at_once(own: Grid) -> None:
    """There is nobody who could let it go, and nothing that only it has."""
    lonely = own.start("lonely", may_found="false")
    wait_until(lambda: lonely.says("listens: "), "it looks for its cluster")
    lonely.terminate()
    assert lonely.code() == Exit.OK
    assert lonely.says("no cluster was found that could let it go: ends")


def test_a_second_signal_ends_it_at_once(own: Grid) -> None:
    """A member that nobody answers can't leave in order: it looks for its cluster for ever."""
    two = [
        own.start(f"m{number}", int(own.initial[number].rpartition(":")[2])) for number in (0, 1)
    ]
    for each in two:
        each.wait_ready()
    two[1].kill()
    two[0].terminate()
    wait_until(lambda: two[0].says("asks the cluster to let this member go"), "it was told")
    two[0].terminate()
    assert two[0].code() == Exit.CUT_SHORT


def test_members_with_encrypted_links(own: Grid) -> None:
    """1. Two members of one authority form. 2. One without a certificate is not let in."""
    authority = Authority(own.folder, "ours")
    for number in (0, 1):
        files = authority.files(f"m{number}")
        link = int(own.initial[number].rpartition(":")[2])
        given = {"ca": "authority", "cert": "certificate", "key": "key"}
        tls = {f"tls_{key}": files[name] for key, name in given.items()}
        own.start(f"m{number}", link, **tls)
    two = list(own.members)
    for each in two:
        each.wait_ready()
    assert ask(two, "SET", "a", "1") in (True, b"OK")
    bare = own.start("bare", may_found="false")
    wait_until(lambda: bare.says("not ready: in no cluster yet"), "it looks in vain")
    assert all(each.popen.poll() is None for each in two)


def test_no_acknowledged_write_is_lost_when_an_owner_is_killed(own: Grid) -> None:
    """1. Every write is acknowledged, with one backup. 2. A member dies without a word."""
    members = own.form()
    written = {key: ask(members, "SET", key, f"of {key}") for key in KEYS}
    assert set(written.values()) <= {True, b"OK"}
    members[1].kill()
    rest = [members[0], members[2]]
    assert [ask(rest, "GET", key) for key in KEYS] == [f"of {key}".encode() for key in KEYS]
    assert ask(rest, "SET", "after", "1") in (True, b"OK")
