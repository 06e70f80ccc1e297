"""What members run: the package compiled as the image has it, if that is of these sources."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from bench.processes import ROOT


@cache
def is_compiled() -> bool:
    """Whether `make compiled` was run since the sources were changed."""
    check = [str(ROOT / "scripts" / "compiled.sh"), "check"]
    environment = {**os.environ, "COMPILED_FOR": sys.executable}
    return subprocess.run(check, env=environment, check=False).returncode == 0


def place() -> Path:
    """Where the package is."""
    return ROOT / "build" / "compiled" if is_compiled() else ROOT / "node" / "src"
