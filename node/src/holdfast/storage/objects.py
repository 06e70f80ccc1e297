"""A depot in an object store that speaks S3.

The library is an extra of the distribution (`holdfast[s3]`): a member does without, its image has
it. Who may write there stands in the environment, as for every program of that kind:
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`.

An object is there whole or not at all, and once its PUT is answered it is read by everyone. So the
order in which files are written is all that a depot needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from holdfast.errors import ConfigurationError, StorageError

if TYPE_CHECKING:
    from obstore.store import S3Store

SCHEME: Final = "s3://"
TIMEOUT: Final = timedelta(minutes=5)
PATIENCE: Final = timedelta(seconds=30)
"""For a server that does not answer, or is too busy."""
LACKING: Final = "object stores need the extra s3: pip install 'holdfast[s3]'"


def store_at(url: str, environment: Mapping[str, str] = os.environ) -> S3Store:
    """The bucket, and the beginning of all names in it, of `s3://BUCKET/PREFIX`."""
    try:
        from obstore.store import S3Store
    except ModuleNotFoundError as error:
        raise ConfigurationError([LACKING]) from error
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise ConfigurationError([f"{url!r} names no bucket: s3://BUCKET/PREFIX"])
    endpoint = environment.get("AWS_ENDPOINT_URL", "")
    given = {
        "access_key_id": environment.get("AWS_ACCESS_KEY_ID"),
        "secret_access_key": environment.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": environment.get("AWS_SESSION_TOKEN"),
        "endpoint": endpoint.rstrip("/") or None,
        "region": environment.get("AWS_REGION") or "us-east-1",
    }
    return S3Store(
        bucket,
        prefix=prefix.strip("/") or None,
        virtual_hosted_style_request=False,
        client_options={"timeout": TIMEOUT, "allow_http": endpoint.startswith("http://")},
        retry_config={"max_retries": 5, "retry_timeout": PATIENCE},
        **{key: value for key, value in given.items() if value},  # type: ignore[arg-type]
    )


class ObjectDepot:
    """A depot below a prefix of a bucket."""

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        self._url = url.rstrip("/")
        self._store = store_at(url, environment)

    @property
    def where(self) -> str:
        """For people."""
        return self._url

    def read(self, path: str) -> bytes:
        """All of an object."""
        with self._told(path):
            return bytes(self._store.get(path).bytes())

    def size(self, path: str) -> int:
        """Of an object."""
        with self._told(path):
            return int(self._store.head(path)["size"])

    def list(self, folder: str) -> list[str]:
        """Objects below a folder."""
        with self._told(folder):
            found = [each["path"] for page in self._store.list(folder) for each in page]
        return sorted(path.removeprefix(f"{folder}/") for path in found)

    def write(self, path: str, data: bytes) -> None:
        """In parts where it is large; nobody sees it before the last one."""
        try:
            with self._told(path):
                self._store.put(path, data)
        except FileNotFoundError as error:
            raise StorageError(self._url, "there is no such bucket") from error

    def remove(self, path: str) -> None:
        """Have it no more."""
        with self._told(path):
            self._store.delete(path)

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Errors of the library as ours."""
        from obstore.exceptions import BaseError, NotFoundError

        try:
            yield
        except (FileNotFoundError, NotFoundError) as error:
            raise FileNotFoundError(f"{self._url}/{path}") from error
        except BaseError as error:
            said = str(error).partition("\n")[0]
            raise StorageError(f"{self._url}/{path}", f"the object store: {said}") from error
