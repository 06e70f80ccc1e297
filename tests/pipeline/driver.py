"""A driver in a process of its own, for a test that kills it: it writes a map without end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.pipeline.sessions import begin

ROWS = 1 << 40


def main(place: str, options: str) -> None:
    """Until it is killed."""
    frame = begin(Path(place)).range(0, ROWS, 1, 2).selectExpr("string(id) as key", "'x' as value")
    frame.write.format("holdfast").options(**json.loads(options)).mode("overwrite").save()


if __name__ == "__main__":
    main(*sys.argv[1:])
