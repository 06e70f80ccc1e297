"""The backups that the members of a running cluster keep, seen as a depot that is only read.

What its members tell of their parts becomes entries; a file of a part is fetched from its member.
A member that does not answer has no part, and a backup that lacks one is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final, NoReturn
from urllib.parse import quote

import httpx

from holdfast.client.http import check, decoded, told
from holdfast.errors import IllegalState
from holdfast.storage.depot import BACKUPS, PARTS, Entry, EntryPart, entry_path
from holdfast.storage.format import manifest
from holdfast.wire.api.backups import BackupModel, BackupsModel
from holdfast.wire.api.cluster import ClusterModel

OWN_PATH: Final = "/v1/members/self/backups"
SECONDS: Final = httpx.Timeout(300.0, connect=5.0)


class GridDepot:
    """Of the cluster that answers at this address."""

    def __init__(self, url: str, secret: bytes) -> None:
        headers = {"authorization": f"Bearer {secret.decode()}"} if secret else {}
        self._url = url.rstrip("/")
        self._client = httpx.Client(headers=headers, timeout=SECONDS, trust_env=False)

    @property
    def where(self) -> str:
        """For people."""
        return f"the members at {self._url}"

    def close(self) -> None:
        """Ask no more."""
        self._client.close()

    def read(self, path: str) -> bytes:
        """An entry, or a file of a part."""
        folder, _, rest = path.partition("/")
        if folder == BACKUPS:
            return manifest.encode(self._entry(rest.removesuffix(".json")))
        answer = self._ask("GET", rest, path)
        return answer.content

    def size(self, path: str) -> int:
        """Of a file of a part."""
        answer = self._ask("HEAD", path.partition("/")[2], path)
        return int(answer.headers["content-length"])

    def list(self, folder: str) -> list[str]:
        """Entries of whole backups; parts are found by them."""
        if folder != BACKUPS:
            return []
        return sorted(entry_path(name).partition("/")[2] for name in self._kept)

    def write(self, path: str, data: bytes) -> NoReturn:  # noqa: ARG002 - as a depot has it
        """Members write their parts themselves."""
        raise IllegalState(f"{self.where}: nothing is written there")

    def remove(self, path: str) -> NoReturn:  # noqa: ARG002 - as a depot has it
        """`DELETE /v1/backups/NAME` does."""
        raise IllegalState(f"{self.where}: nothing is removed there")

    @cached_property
    def _cluster(self) -> ClusterModel:
        return decoded(self._get(f"{self._url}/v1/cluster").content, ClusterModel)

    @cached_property
    def _kept(self) -> Mapping[str, BackupModel]:
        told = decoded(self._get(f"{self._url}/v1/backups").content, BackupsModel)
        return {each.name: each for each in told.backups if each.complete}

    def _entry(self, name: str) -> Entry:
        found = self._kept.get(name)
        if found is None:
            raise FileNotFoundError(name)
        cluster = self._cluster
        return Entry(
            name=found.name,
            cluster=cluster.id,
            grid=cluster.name,
            level=cluster.level,
            partition_count=cluster.partitions.total,
            created_s=found.created,
            parts=tuple(
                EntryPart(each.id, each.member, each.files, each.bytes, each.own_bytes)
                for each in found.parts
            ),
        )

    def _ask(self, method: str, rest: str, path: str) -> httpx.Response:
        member, _, file = rest.partition("/")
        found = next((each for each in self._cluster.members if each.id == member), None)
        if found is None or not path.startswith(PARTS):
            raise FileNotFoundError(path)
        return self._get(f"http://{found.endpoints.http}{OWN_PATH}/{quote(file)}", method)

    def _get(self, url: str, method: str = "GET") -> httpx.Response:
        with told(url):
            answer = self._client.request(method, url)
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise FileNotFoundError(url)
        check(answer)
        return answer
