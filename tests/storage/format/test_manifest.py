"""Manifest and identity: people can read them, and nothing else is taken for them."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.errors import CorruptFile, NewerFormat
from holdfast.storage.format import manifest
from holdfast.storage.format.manifest import Base, ControlFiles, Identity, Manifest

FULL = Manifest(
    "m", 5, 3, 9, (6, 8), (77,), (Base(7, 6, (0, 3), (4, -1), 123),), ControlFiles(7, 6, True)
)


def signed(line: bytes) -> bytes:
    return b"%b\n%08x\n" % (line, google_crc32c.value(line))


def test_what_is_written_is_read() -> None:
    assert manifest.decode_manifest(manifest.encode(FULL), "f") == FULL
    identity = Identity("m", 4, 5, 3)
    assert manifest.decode_identity(manifest.encode(identity), "f") == identity


def test_an_identity_is_these_bytes() -> None:
    line = (
        b'{"member":"m","incarnation":4,"partition_count":5,"replica_count":3,"format":1,'
        b'"boot":"b","lazy":true,"ended":false,"unsure":false}'
    )
    assert manifest.encode(Identity("m", 4, 5, 3, boot="b")) == signed(line)


def test_files_are_sure_if_nothing_that_was_called_persisted_can_be_missing() -> None:
    wrote = Identity("m", 4, 5, 3, boot="b")
    assert wrote.is_sure("b")
    assert not wrote.is_sure("c")
    assert not Identity("m", 4, 5, 3).is_sure(""), "a machine that can't be told may be another"
    for sure in (replace(wrote, lazy=False), replace(wrote, ended=True)):
        assert sure.is_sure("c")
        assert not replace(sure, unsure=True).is_sure("b")


def test_an_identity_that_says_nothing_of_its_end_is_not_relied_on() -> None:
    line = b'{"member":"m","incarnation":4,"partition_count":5,"replica_count":3,"format":1}'
    assert not manifest.decode_identity(signed(line), "f").is_sure("b")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "checksum"),
        (manifest.encode(FULL)[:-2] + b"x\n", "checksum"),
        (signed(b"{}"), "says no version"),
        (signed(b'{"format":1}'), "malformed"),
        (
            signed(
                b'{"member":"m","partition_count":5,"replica_count":3,"next":1,"segments":[1,2],'
                b'"sealed":[],"format":1}'
            ),
            "each segment but the last one has an end",
        ),
    ],
)
def test_a_malformed_manifest_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason) as refused:
        manifest.decode_manifest(data, "data/MANIFEST")
    assert refused.value.file == "data/MANIFEST"


def test_a_malformed_identity_is_refused() -> None:
    with pytest.raises(CorruptFile, match="malformed"):
        manifest.decode_identity(signed(b'{"format":1}'), "f")


def test_a_later_version_is_refused_as_such() -> None:
    for decode in (manifest.decode_manifest, manifest.decode_identity):
        with pytest.raises(NewerFormat, match="version 2; this is version 1"):
            decode(signed(b'{"format":2,"whatever":"comes"}'), "f")


@given(st.binary(max_size=200))
def test_rubbish_is_refused(data: bytes) -> None:
    for line in (data, signed(data)):
        with pytest.raises(CorruptFile):
            manifest.decode_manifest(line, "f")
