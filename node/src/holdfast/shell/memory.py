"""Memory of this process, and what the machine or the container lets it have.

A limit of a container is the smallest of all groups from its own up to the root. Which files tell
it differs between the two versions of control groups; a machine may mount both. What is larger
than the machine's memory is how a group says that it has no limit.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from holdfast.errors import ConfigurationError

STATM: Final = Path("/proc/self/statm")
ROOT: Final = Path("/")
V1: Final = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
V2: Final = ("sys/fs/cgroup", "memory.max")
DATA_SHARE: Final = (3, 4)
"""Of what there is, the data may take this much; the rest is for connections, journals, copies on
their way, and the interpreter."""
AUTO: Final = "auto"
UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SIZE: Final = re.compile(r"(\d+)\s*([KMGT]iB)?")
NO_SIZE: Final = "must be {auto}, bytes, or a number with KiB, MiB, GiB or TiB; 0 for no limit"


def memory_max_bytes(given: str, processes: int, root: Path = ROOT) -> int:
    """What the data of one member may take, by its setting."""
    if given == AUTO:
        share, whole = DATA_SHARE
        return available_bytes(root) * share // whole // max(processes, 1)
    return parse_size(given)


def parse_size(text: str) -> int:
    """`2GiB`, `512 MiB` or plain bytes."""
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError([NO_SIZE.format(auto=AUTO)])
    return int(found[1]) * UNITS[found[2] or ""]


def available_bytes(root: Path = ROOT) -> int:
    """The machine's memory, or what the container's groups leave of it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """What each group that this process is in may have."""
    for place, name, group in _groups(root):
        path = PurePosixPath(group)
        for each in (path, *path.parents):
            limit = _read(root / place / str(each).lstrip("/") / name)
            if limit.isdecimal():  # "max" is none
                yield int(limit)


def _groups(root: Path) -> Iterator[tuple[str, str, str]]:
    """Where limits stand, in which file, and the group, by the kernel's list: a line for each
    hierarchy, `number:controllers:path`. The second version has the number 0."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0":
            yield (*V2, group)
        elif "memory" in controllers.split(","):
            yield (*V1, group)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def memory_bytes() -> int:
    """What this process has of the machine's memory now; where that can't be seen, the most."""
    pages = _read(STATM).split()
    return int(pages[1]) * resource.getpagesize() if pages else memory_bytes_max()


def memory_bytes_max() -> int:
    """The most that it was."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1_024
