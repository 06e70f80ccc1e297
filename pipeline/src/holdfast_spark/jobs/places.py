"""Files of members, wherever they are: on a disk that this process reaches, or in an object store.

A place is a path, or a URI of a file system that Arrow knows: `s3://bucket/backups/m1`, `gs://…`,
`hdfs://…`, `file:///…`. An object store is only read; who has rights there is said as Arrow wants
it said (environment, or in the URI: `s3://bucket/path?region=…&endpoint_override=…`).
"""

from __future__ import annotations

import errno
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.storage.backup import files_at, readable
from holdfast.storage.files import Readable, Stream
from holdfast_spark.errors import OptionError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@dataclass(frozen=True, slots=True)
class ArrowFiles:
    """A folder of a file system that Arrow knows."""

    system: FileSystem
    root: str

    def read(self, name: str) -> bytes:
        """All of a file."""
        with self.system.open_input_stream(f"{self.root}/{name}") as stream:
            found: bytes = stream.read()
        return found

    def open(self, name: str) -> Stream:
        """From its beginning, once all of it is here."""
        return io.BytesIO(self.read(name))

    def size(self, name: str) -> int:
        """Of a file."""
        found = self.system.get_file_info(f"{self.root}/{name}")
        if not found.is_file:
            raise FileNotFoundError(errno.ENOENT, "no such file", f"{self.root}/{name}")
        return int(found.size)

    def list(self, folder: str) -> list[str]:
        """The files of a folder."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(f"{self.root}/{folder}", allow_not_found=True)
        found = self.system.get_file_info(selector)
        return sorted(each.base_name for each in found if each.is_file)


def files_of(place: str) -> Readable:
    """The files of a member, or of a backup of them."""
    if "://" not in place:
        return files_at(Path(place))
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    try:
        system, path = FileSystem.from_uri(place)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise OptionError(f"{place}: Arrow can't read there: {error}") from error
    around, _, name = path.rstrip("/").rpartition("/")
    return readable(ArrowFiles(system, around), name, ArrowFiles(system, path.rstrip("/")))
