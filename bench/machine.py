"""Facts of the machine that figures are measured on, and who else uses it meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import package, peers
from bench.processes import ROOT


def facts() -> dict[str, Any]:
    """What a reader of the figures needs to know."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    models = [line.partition(":")[2].strip() for line in cpu.splitlines() if "model name" in line]
    return {
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "model": models[0] if models else platform.machine(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "python": platform.python_version(),
        "uvloop": version("uvloop"),
        "hiredis": version("hiredis"),
        "redis": peers.version(),
        "commit": commit(),
        "compiled": package.is_compiled(),
    }


def memory_bytes() -> int:
    """All that there is."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def commit() -> str:
    """Of the sources; empty where they are no clone."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


class Neighbours:
    """How much of the machine others used since this was made."""

    def __init__(self) -> None:
        self._began, self._busy, self._ours = time.monotonic(), _busy(), _ours()

    def share(self) -> float:
        """Of all processors; what ours used counts once they have ended."""
        passed = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        theirs = (_busy() - self._busy) - (_ours() - self._ours)
        return max(theirs, 0.0) / passed if passed else 0.0


def _busy() -> float:
    """Seconds that the machine's processors were busy, also for other guests of its host."""
    line = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
    user, nice, system, _, _, irq, soft, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def _ours() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
