"""Where a local cluster keeps its files, so that it can be stopped and started again.

    DIR/LOCK            held by the command that runs the cluster
    DIR/cluster.json    its shape
    DIR/m1, DIR/m2 ...  the files of each member

A cluster that lacks one of its members would wait for it, or believe its data lost. So the shape
of the first start holds for each one after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Final

import msgspec

from holdfast.cli.dev.members import Shape
from holdfast.errors import ConfigurationError, DirectoryInUse
from holdfast.storage.files import RealFiles, hold, replace

SHAPE: Final = "cluster.json"
LOCK: Final = "LOCK"


class Home:
    """The directory of one local cluster, held by this process."""

    def __init__(self, directory: Path, shape: Shape) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = _held(directory)
        except OSError as error:
            raise ConfigurationError(
                [f"--persist {directory}: {error.strerror or error}"]
            ) from error
        try:
            self._check(shape)
        except ConfigurationError:
            self.close()
            raise

    def of(self, member: str) -> Path:
        """The files of this member."""
        return self.directory / member

    def close(self) -> None:
        """Let another command have it."""
        self._lock.close()

    def _check(self, shape: Shape) -> None:
        """The first time, note the shape; later it has to be the same."""
        path = self.directory / SHAPE
        try:
            if not path.exists():
                replace(RealFiles(self.directory, lock=False), SHAPE, msgspec.json.encode(shape))
                return
            known = msgspec.json.decode(path.read_bytes(), type=Shape)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigurationError([f"{path}: {error}"]) from error
        if known != shape:
            how = f"start it with {_flags(known)}"
            raise ConfigurationError([f"{self.directory} has the files of another cluster: {how}"])


def _held(directory: Path) -> IO[bytes]:
    try:
        return hold(directory / LOCK)
    except DirectoryInUse as error:
        raise ConfigurationError(
            [f"{directory}: another holdfast dev runs the cluster that is kept there"]
        ) from error


def _flags(shape: Shape) -> str:
    return f"--members {shape.members} --lite {shape.lite} --processes {shape.processes}"
