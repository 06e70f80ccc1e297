"""The table of all commands, and COMMAND, which tells it."""

from __future__ import annotations

import pytest

from holdfast.core.stores.catalogue import ALL, CATALOGUE, look_up
from holdfast.core.stores.command import Trait
from holdfast.core.stores.describing import HELP
from holdfast.core.stores.replies import RESP3
from holdfast.errors import CommandError
from tests.core.stores.partition import Partition


def test_a_command_is_found_in_any_case() -> None:
    for name in (b"GETEX", b"getex", b"gEtEx"):
        assert look_up([name, b"k"]).name == "GETEX"


def test_no_name_is_there_twice() -> None:
    names = [command.name for command in ALL.all()]
    assert len(set(names)) == len(names)
    assert len(CATALOGUE) == 2 * len(names)
    assert all(name == name.upper() for name in names)


def test_whatever_writes_says_so_and_names_its_keys() -> None:
    for command in ALL.all():
        assert (Trait.WRITE in command.traits) != (Trait.READ in command.traits), command.name
        assert (command.keys[0] == 0) == (Trait.KEYSPACE in command.traits), command.name


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([b"foo"], "ERR unknown command 'foo', with args beginning with: "),
        ([b"foo", b"a", b"b"], "ERR unknown command 'foo', with args beginning with: 'a' 'b' "),
        ([b"f\0o", b"a\0b"], "ERR unknown command 'f', with args beginning with: 'a' "),
        (
            [b"f" * 200, b"a" * 200, b"b"],
            f"ERR unknown command '{'f' * 128}', with args beginning with: '{'a' * 128}' ",
        ),
        (
            [b"foo", *[b"a" * 60] * 3],
            "ERR unknown command 'foo', with args beginning with: "
            f"'{'a' * 60}' '{'a' * 60}' '{'a' * 2}' ",
        ),
        ([b"get"], "ERR wrong number of arguments for 'get' command"),
        ([b"GET", b"a", b"b"], "ERR wrong number of arguments for 'get' command"),
    ],
)
def test_what_can_not_be_called_is_refused_with_redis_words(args: list[bytes], text: str) -> None:
    with pytest.raises(CommandError) as refused:
        look_up(args)
    assert refused.value.message == text


def test_bytes_that_are_no_text_come_back_as_they_were() -> None:
    assert Partition().raw(b"\xff\xfe") == (
        b"-ERR unknown command '\xff\xfe', with args beginning with: \r\n"
    )


def test_commands_are_counted_and_listed() -> None:
    partition = Partition()
    assert partition.run("COMMAND", "COUNT") == len(ALL.all())
    listed = partition.run("COMMAND")
    assert isinstance(listed, list)
    assert len(listed) == len(ALL.all())
    assert listed == partition.run("COMMAND", "INFO")


def test_a_command_is_described() -> None:
    partition = Partition()
    assert partition.run("COMMAND", "INFO", "mset", "nope", "Blpop") == [
        [b"mset", -3, ["write", "denyoom", "fast"], 1, -1, 2, ["@write", "@fast"], [], [], []],
        None,
        [
            b"blpop",
            -3,
            ["write", "blocking"],
            1,
            -2,
            1,
            ["@write", "@blocking", "@slow"],
            [],
            [],
            [],
        ],
    ]
    described = Partition(dialect=RESP3).raw("COMMAND", "INFO", "get")
    assert described.startswith(
        b"*1\r\n*10\r\n$3\r\nget\r\n:2\r\n~2\r\n+readonly\r\n+fast\r\n:1\r\n"
    )


def test_a_command_is_documented() -> None:
    partition = Partition()
    assert partition.run("COMMAND", "DOCS", "get", "nope") == [
        b"get",
        [b"summary", b"GET key.", b"group", b"string"],
    ]
    documented = partition.run("COMMAND", "DOCS")
    assert isinstance(documented, list)
    assert len(documented) == 2 * len(ALL.all())
    for command, told in zip(ALL.all(), documented[1::2], strict=True):
        assert isinstance(told, list)
        assert isinstance(told[1], bytes)
        assert command.name.encode() in told[1], "the summary is how it is called"


def test_the_keys_of_a_call_are_found() -> None:
    partition = Partition()
    assert partition.run("COMMAND", "GETKEYS", "mset", "a", "1", "b", "2") == [b"a", b"b"]
    assert partition.run("COMMAND", "GETKEYS", "blpop", "a", "b", "0") == [b"a", b"b"]
    assert partition.run("COMMAND", "GETKEYS", "get", "a") == [b"a"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("COMMAND nope", "ERR unknown subcommand 'nope'. Try COMMAND HELP."),
        ("COMMAND COUNT x", "ERR wrong number of arguments for 'command|count' command"),
        ("COMMAND getkeys get", "ERR wrong number of arguments for 'command|getkeys' command"),
        ("COMMAND GETKEYS nope a", "ERR Invalid command specified"),
        ("COMMAND GETKEYS dbsize a", "ERR The command has no key arguments"),
        ("COMMAND GETKEYS mset a", "ERR Invalid number of arguments specified for command"),
    ],
)
def test_questions_that_make_no_sense_are_refused(words: str, text: str) -> None:
    assert Partition().run(*words.split()) == text


def test_help_is_given() -> None:
    assert Partition().run("COMMAND", "HELP") == list(HELP)
