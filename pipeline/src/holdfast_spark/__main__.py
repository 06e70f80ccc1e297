"""`python -m holdfast_spark`; what spark-submit is given."""

from __future__ import annotations

import sys

from holdfast_spark.jobs.command import main

if __name__ == "__main__":
    sys.exit(main())
