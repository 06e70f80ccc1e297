"""Options: read, checked, and refused with their names."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast_spark.errors import OptionError
from holdfast_spark.options import Format, Options, Undecodable, Use

LEAST = {"endpoints": "http://a:1", "map": "users"}


def test_what_is_given_is_read() -> None:
    given = {"endpoints": "http://a:1, http://b:2", "map": "users", "batchBytes": "65536"}
    options = Options.of(given | {"FORMAT": "Json", "undecodable": "skip"}, Use.READ)
    assert options.endpoints == ("http://a:1", "http://b:2")
    assert (options.format, options.undecodable) == (Format.JSON, Undecodable.SKIP)
    assert options.batch_bytes == 65_536
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("given", "use", "complaint"),
    [
        ({"map": "users"}, Use.READ, "option 'endpoints' is missing: addresses of the HTTP"),
        ({"endpoints": "http://a:1"}, Use.READ, "option 'map' is missing"),
        (LEAST | {"endpoint": "x"}, Use.READ, "'endpoint' is unknown; did you mean 'endpoints'"),
        (LEAST | {"qqq": "x"}, Use.READ, "option 'qqq' is unknown$"),
        (LEAST | {"endpoints": "a:1"}, Use.READ, "option 'endpoints': 'a:1': 'a:1' is no addr"),
        (LEAST | {"endpoints": "https://a"}, Use.READ, "has no TLS yet"),
        (LEAST | {"endpoints": " , "}, Use.READ, "option 'endpoints': ' , ': it is empty"),
        (LEAST | {"map": " "}, Use.READ, "option 'map': ' ': it is empty"),
        (LEAST | {"map": "a:b"}, Use.READ, "option 'map': 'a:b': the name of a map has no colon"),
        (LEAST | {"tls": "true"}, Use.READ, "option 'tls': the HTTP ports of members have no TLS"),
        (LEAST | {"tls": "yes"}, Use.READ, "option 'tls': 'yes': it is neither true nor false"),
        (LEAST | {"format": "xml"}, Use.READ, "option 'format': 'xml': it is none of raw, json"),
        (LEAST | {"tasks": "-1"}, Use.READ, "option 'tasks': '-1': it is not a number from 0"),
        (LEAST | {"tasks": "x"}, Use.READ, "option 'tasks': 'x'"),
        (LEAST | {"life_seconds": "0"}, Use.WRITE, "'life_seconds': '0': it is not above 0"),
        (LEAST | {"delete_column": "d"}, Use.READ, "'delete_column' is not for a batch read"),
        (LEAST | {"columns": "key"}, Use.WRITE, "option 'columns' is not for a batch write"),
        (LEAST | {"gap": "fail"}, Use.SINK, "option 'gap' is not for a stream write"),
        (LEAST | {"secret": "a", "secret_file": "b"}, Use.READ, "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], use: Use, complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        Options.of(given, use)


def test_what_spark_adds_is_let_through() -> None:
    assert Options.of(LEAST | {"path": "x", "checkpointLocation": "y"}, Use.SINK).map == "users"


def test_every_option_is_explained() -> None:
    for each in fields(Options):
        assert each.metadata["text"], each.name
        assert each.metadata["uses"], each.name


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    options = Options.of(LEAST | {"secret": "hush"}, Use.READ)
    assert "hush" not in repr(options)
    assert options.secret_bytes() == b"hush"
    file = tmp_path / "secret"
    given = LEAST | {"secret_file": str(file)}
    with pytest.raises(OptionError, match=r"option 'secret_file': .*secret: No such file"):
        Options.of(given, Use.READ).secret_bytes()
    file.write_text("hush\n")
    assert Options.of(given, Use.READ).secret_bytes() == b"hush"
