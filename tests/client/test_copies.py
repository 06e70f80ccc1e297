"""Copies of a running cluster: what each holder has, and that all have the same."""

from __future__ import annotations

import httpx
import pytest

from holdfast.client.grid import Grid
from holdfast.client.http import HttpClient
from holdfast.core.data.likeness import (
    Likeness,
    number_of_content,
    number_of_version,
    weight_of,
)
from holdfast.core.data.merkle import PRIME
from holdfast.core.data.plane import slot_of
from holdfast.errors import ProblemReported, Unreachable
from tests.shell.http.clusters import Processes

COUNT = 32
KEYS = [f"copied:{number}".encode() for number in range(50)]


def clients(several: Processes) -> list[HttpClient]:
    secret = several.secret.encode()
    return [HttpClient(each.url, secret=secret) for each in several.living()]


async def fill(several: Processes) -> None:
    addresses = [each.ends["cluster"] for each in several.living()[:3]]
    async with await Grid.connect(addresses) as grid:
        for key in KEYS:
            await grid.set(key, b"of " + key)


async def test_every_holder_has_the_same_sum_as_the_rows_that_it_gives(
    several: Processes,
) -> None:
    await fill(several)
    several.settle()
    partition = slot_of(KEYS[0]) * COUNT >> 14
    mine = [key for key in KEYS if slot_of(key) * COUNT >> 14 == partition]
    seen = {}
    for client in clients(several):
        async with client:
            for likeness in Likeness:
                found = await client.copies(partition, likeness=likeness)
                copy = next((each for each in found.copies if each.name == "copied"), None)
                if copy is None:
                    continue
                weight = 0
                async for rows in client.copy_rows(partition, "copied"):
                    for row in rows:
                        number = (
                            number_of_version(row.version)
                            if likeness is Likeness.VERSIONS
                            else number_of_content(row.kind, row.expiry, row.value)
                        )
                        weight += weight_of(row.key, number)
                assert f"{weight % PRIME:016x}" == copy.weight
                assert (copy.keys, copy.clean, copy.copies) == (len(mine), True, 2)
                seen[found.index, likeness] = (copy.epoch, copy.counter, copy.weight)
    assert sorted({index for index, _ in seen}) == [0, 1]
    for likeness in Likeness:
        assert seen[0, likeness] == seen[1, likeness]


async def test_what_can_not_be_is_refused(several: Processes) -> None:
    client = clients(several)[0]
    async with client:
        with pytest.raises(ProblemReported, match="no such partition"):
            await client.copies(999)
        rows = [rows async for rows in client.copy_rows(0, "nothing")]
        assert [len(each) for each in rows] == [0]
    url = several.living()[0].url
    async with HttpClient(url) as stranger:
        with pytest.raises(ProblemReported, match="Bearer"):
            await stranger.copies(0)
        with pytest.raises(ProblemReported, match="Bearer"):
            _ = [rows async for rows in stranger.copy_rows(0, "x")]


async def test_a_stream_that_breaks_off_is_told() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=httpx.ByteStream(b""))

    transport = httpx.MockTransport(answer)
    async with HttpClient("http://nobody", transport=transport) as client:
        with pytest.raises(Unreachable, match="broke off"):
            _ = [rows async for rows in client.copy_rows(0, "x")]
