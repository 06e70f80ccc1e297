"""Settings: where they come from, what beats what, and every error at once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.core.config import Config
from holdfast.errors import ConfigurationError
from holdfast.shell import settings
from holdfast.shell.memory import available_bytes
from holdfast.shell.options import Options
from holdfast.shell.settings import load
from tests.shell.certificates import Authority

NOT_SETTINGS = {"initial", "names", "unnamed", "memory_max_bytes"}
"""Fields of the core's configuration that settings make in their own way."""


def reasons(
    file: Path | None = None, environment: dict[str, str] | None = None, **flags: object
) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(file, environment, flags)
    return list(caught.value.reasons)


def test_defaults_work_on_this_machine_alone() -> None:
    loaded = load()
    assert loaded.advertise == "127.0.0.1"
    assert loaded.core == Config(memory_max_bytes=available_bytes() * 3 // 4)
    assert loaded.name.endswith("-7380")
    assert loaded.address(7380) == "127.0.0.1:7380"


def test_flag_beats_environment_beats_file(tmp_path: Path) -> None:
    file = tmp_path / "member.toml"
    file.write_text('name = "file"\ngroup = "file"\ncluster_name = "file"\n')
    loaded = load(file, {"HOLDFAST_GROUP": "env", "HOLDFAST_NAME": "env"}, {"name": "flag"})
    assert (loaded.name, loaded.group, loaded.core.cluster_name) == ("flag", "env", "file")


def test_a_list_is_an_array_or_text_with_commas(tmp_path: Path) -> None:
    file = tmp_path / "member.toml"
    file.write_text('initial = ["a:1", "b:2"]\n')
    assert load(file).core.initial == ("a:1", "b:2")
    assert load(None, {"HOLDFAST_INITIAL": "a:1, b:2"}).core.initial == ("a:1", "b:2")
    assert load(None, None, {"initial": "a:1,b:2"}).core.initial == ("a:1", "b:2")


def test_every_setting_of_the_core_can_be_given() -> None:
    ours = {each.name for each in fields(Options) if each.metadata["core"]}
    assert ours == {each.name for each in fields(Config)} - NOT_SETTINGS
    assert all(getattr(Options(), name) == getattr(Config(), name) for name in ours), (
        "a default differs from the core's"
    )


def test_every_error_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "member.toml"
    file.write_text('kynd = "data"\nlease_ms = "soon"\n[names.users]\nbackups = 9\nbackup = 1\n')
    told = reasons(
        file, {"HOLDFAST_PORT_HTTP": "99999", "HOLDFAST_KIND": "litte"}, initial="a", bind="::"
    )
    wanted = [
        f"kynd: there is no such setting (in {file})",
        f"lease_ms = 'soon' (from {file}): expected int, got str",
        "port_http = '99999' (from HOLDFAST_PORT_HTTP): expected int <= 65535",
        "kind = 'litte' (from HOLDFAST_KIND): allowed are data, lite",
        "names.users.backup: there is no such setting of a name",
        "names.users: 9 synchronous and 0 asynchronous backups: a partition has at most 6",
        "initial: 'a' is no host:port",
        "bind = '::' names no host for others: say it by advertise",
    ]
    assert [each for each in wanted if each not in told] == []


def test_who_has_no_files_hands_over() -> None:
    told = reasons(hands_over="false")
    assert told == ["hands_over = false without data_dir would end a member and all that it has"]


def test_contradictions_are_told() -> None:
    assert reasons(port_plain="7000", port_cluster="7000") == [
        "two of port_plain, port_cluster, port_http, port_member are the same"
    ]
    assert reasons(heartbeat_ms="1000") == [
        "three heartbeats of 1000 ms must fit a lease of 2000 ms"
    ]
    assert reasons(value_bytes_max="10", request_bytes_max="5") == [
        "request_bytes_max must not be less than value_bytes_max"
    ]


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    assert reasons(tmp_path / "none.toml") == [f"{tmp_path}/none.toml: No such file or directory"]
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = b")
    assert reasons(broken)[0].startswith(f"{broken} is no TOML: ")


def test_names_take_what_they_do_not_say_from_unnamed(tmp_path: Path) -> None:
    file = tmp_path / "member.toml"
    file.write_text(
        "backup_count = 0\n[unnamed]\nttl_ms = 5\n[names.users]\nbackups = 2\n[names.cache]\n"
        'eviction = "lru"\nentries_max = 10\n'
    )
    core = load(file).core
    assert (core.unnamed.backups, core.unnamed.ttl_ms) == (0, 5)
    assert (core.names[b"users"].backups, core.names[b"users"].ttl_ms) == (2, 5)
    assert core.names[b"cache"].eviction == "lru"
    assert core.backup_count == 2, "what is promised is the most that any name asks for"


def test_names_must_be_tables(tmp_path: Path) -> None:
    file = tmp_path / "member.toml"
    file.write_text("names = 1\nunnamed = 2\n")
    assert reasons(file) == [
        "unnamed: must be a table",
        "names: must be tables, like [names.users]",
    ]
    file.write_text(
        'replica_count = 2\n[names]\na = 1\n[names.b]\nbackups = 2\n[names.c]\nttl_ms="x"'
    )
    assert reasons(file) == [
        "names.a: must be a table",
        "names.c.ttl_ms = 'x': expected int, got str",
        "names.b: 3 copies do not fit replica_count = 2",
        "2 backups and an owner do not fit a row of 2 replicas",
    ]


def test_beyond_this_machine_a_secret_is_wanted(tmp_path: Path) -> None:
    (told,) = reasons(bind="192.0.2.1")
    assert told.startswith("bind = 192.0.2.1 is reached from other machines, and without a secret")
    assert load(None, None, {"bind": "192.0.2.1", "allow_no_secret": "true"}).secret == b""
    file = tmp_path / "secret"
    file.write_bytes(b"  0123456789abcdef\n")
    assert load(None, None, {"bind": "192.0.2.1", "secret_file": str(file)}).secret == (
        b"0123456789abcdef"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    assert load(None, None, {"bind": host}).secret == b""


def test_a_host_with_colons_is_written_in_brackets() -> None:
    assert load(None, None, {"bind": "::1"}).address(1) == "[::1]:1"


def test_secrets_that_can_not_be(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(b"abc")
    assert reasons(secret_file=str(short)) == ["the secret has 3 bytes: it must have at least 16"]
    assert reasons(secret_file=f"{tmp_path}/none") == [
        f"secret_file = '{tmp_path}/none': No such file or directory"
    ]
    environment = {"HOLDFAST_SECRET": "0123456789abcdef"}
    assert reasons(None, environment, secret_file=str(short)) == [
        "secret and secret_file: give one of them"
    ]
    assert load(None, environment).secret == b"0123456789abcdef"


def test_encryption_needs_three_files_that_can_be_used(tmp_path: Path) -> None:
    assert reasons(tls_ca="ca.pem") == ["tls_ca, tls_cert and tls_key: give all three, or none"]
    (told,) = reasons(tls_ca=f"{tmp_path}/ca", tls_cert="c", tls_key="k")
    assert told.endswith("No such file or directory")
    files = Authority(tmp_path, "ours").files("a")
    flags = {
        "tls_ca": files["authority"],
        "tls_cert": files["certificate"],
        "tls_key": files["key"],
    }
    assert load(None, None, flags).tls is not None


def test_secrets_are_not_shown() -> None:
    loaded = load(None, {"HOLDFAST_SECRET": "0123456789abcdef"})
    assert "0123456789abcdef" not in repr(loaded)


def test_what_kubernetes_puts_into_the_environment_is_passed_over() -> None:
    environment = {
        "HOLDFAST_SERVICE_HOST": "10.0.0.1",
        "HOLDFAST_SERVICE_PORT": "6379",
        "HOLDFAST_SERVICE_PORT_PLAIN": "6379",
        "HOLDFAST_PORT": "tcp://10.0.0.1:6379",
        "HOLDFAST_PORT_6379_TCP_ADDR": "10.0.0.1",
        "HOLDFAST_MEMBER_PORT": "tcp://10.0.0.1:7380",
        "HOLDFAST_LEASE": "1",
    }
    assert load(None, environment).unknown == ("HOLDFAST_LEASE",)


def test_every_setting_says_what_it_is_for() -> None:
    assert all(len(each.metadata["text"]) > 10 for each in fields(Options))
    assert set(settings.HINTS) == {each.name for each in fields(Options)}


def test_failure_domain_is_what_the_file_of_the_group_says(tmp_path: Path) -> None:
    (tmp_path / "machine-1").write_text("zone-a\n")
    loaded = load(None, None, {"group": "machine-1", "groups_dir": str(tmp_path)})
    assert loaded.group == "zone-a"


@pytest.mark.parametrize("group", ["machine-2", "../machine-1", "empty"])
def test_group_without_a_failure_domain_is_refused(tmp_path: Path, group: str) -> None:
    """A member that took its machine for its zone could hold two copies in one zone."""
    (tmp_path / "machine-1").write_text("zone-a")
    (tmp_path / "groups").mkdir()
    (tmp_path / "groups" / "empty").write_text(" \n")
    told = reasons(group=group, groups_dir=str(tmp_path / "groups"))
    assert len(told) == 1
    assert "no failure domain" in told[0]


@pytest.mark.parametrize(
    ("given", "limit"),
    [("0", 0), (4096, 4096), ("512 MiB", 512 << 20), ("2GiB", 2 << 30), ("1TiB", 1 << 40)],
)
def test_memory_is_limited_by_bytes_or_by_units(given: object, limit: int) -> None:
    assert load(flags={"memory_max": given}).core.memory_max_bytes == limit


def test_memory_is_shared_by_the_processes() -> None:
    whole = load().core.memory_max_bytes
    assert load(flags={"processes": "3"}).core.memory_max_bytes == whole // 3
    assert load(flags={"processes": "0"}).core.memory_max_bytes == whole


@pytest.mark.parametrize("given", ["much", "-1", "2GB", "1.5GiB", ""])
def test_memory_that_is_no_size_is_refused(given: str) -> None:
    assert reasons(memory_max=given) == [
        f"memory_max = {given!r}: must be auto, bytes, or a number with KiB, MiB, GiB or TiB;"
        " 0 for no limit"
    ]
