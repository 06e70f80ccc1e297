"""Compiles the path of a command through the core, where that is asked for (docs/adr/0034).

`HOLDFAST_COMPILED=1` makes a wheel for this interpreter and machine, with mypyc; otherwise the
wheel is of Python alone, from the same sources, which are in both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASKED = "HOLDFAST_COMPILED"
MODULES = (
    "core/context.py",
    "core/data/checks.py",
    "core/data/copies.py",
    "core/data/gates.py",
    "core/data/giving.py",
    "core/data/holdings.py",
    "core/data/journal.py",
    "core/data/memory.py",
    "core/data/plane.py",
    "core/data/pulling.py",
    "core/data/removals.py",
    "core/data/replicas.py",
    "core/data/replication.py",
    "core/data/rounds.py",
    "core/data/service.py",
    "core/data/sessions.py",
    "core/data/streams.py",
    "core/data/tickets.py",
    "core/data/vectors.py",
    "core/effects.py",
    "core/election.py",
    "core/events.py",
    "core/execution.py",
    "core/forming.py",
    "core/front/errands.py",
    "core/front/forwarding.py",
    "core/front/guests.py",
    "core/front/service.py",
    "core/guards.py",
    "core/joining.py",
    "core/leadership.py",
    "core/mastership.py",
    "core/membership.py",
    "core/node.py",
    "core/outbox.py",
    "core/participation.py",
    "core/publication.py",
    "core/quorums.py",
    "core/rebalancing.py",
    "core/requests.py",
    "core/schedule.py",
    "core/service.py",
    "core/settlement.py",
    "core/stores/command.py",
    "core/stores/fragment.py",
    "core/stores/gathering.py",
    "core/stores/incoming.py",
    "core/stores/living.py",
    "core/stores/plain.py",
    "core/stores/record.py",
    "core/stores/replies.py",
    "core/stores/settings.py",
    "core/stores/space.py",
    "core/transition.py",
    "core/turns.py",
    "shell/driver.py",
    "storage/commit.py",
    "storage/engine.py",
    "storage/format/flat.py",
    "storage/log.py",
    "storage/pace.py",
    "storage/packing.py",
    "storage/writer.py",
    "wire/codec.py",
    "wire/frames.py",
    "wire/requests.py",
    "wire/validation.py",
)
"""What a SET, a GET and a migration spend the core's time in, and what shares its classes."""


OPTIONS = ("--python-version", "3.11", "--ignore-missing-imports")
"""Nothing of third parties need be there: what is compiled imports next to nothing of them."""


class CompileHook(BuildHookInterface[Any]):
    """Part of each build; does nothing unless it is asked to."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled modules to a wheel."""
        if version == "editable" or os.environ.get(ASKED, "0") != "1":
            return
        self._place = Path(tempfile.mkdtemp(prefix="holdfast-"))
        for found in compiled(Path(self.root) / "src", self._place):
            build_data["force_include"][str(found)] = str(found.relative_to(self._place))
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        del version, build_data, artifact_path
        if hasattr(self, "_place"):
            shutil.rmtree(self._place)


def compiled(sources: Path, place: Path) -> list[Path]:
    """The modules, compiled in a copy of the sources; what came of it."""
    shutil.copytree(sources / "holdfast", place / "holdfast")
    files = [f"holdfast/{each}" for each in MODULES]
    settings = {**os.environ, "MYPYC_OPT_LEVEL": "3", "MYPYC_DEBUG_LEVEL": "0"}
    done = subprocess.run(  # noqa: S603  what it runs is written here
        [sys.executable, "-m", "mypyc", *OPTIONS, *files],
        cwd=place,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
        raise SystemExit("mypyc could not compile the core; it needs a C compiler and Python.h")
    return sorted(place.glob("*.so")) + sorted((place / "holdfast").rglob("*.so"))
