"""`holdfast-operator`: looks after Clusters until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from datetime import UTC, datetime

from holdfast_operator.kubernetes.errors import KubernetesError
from holdfast_operator.options import parse
from holdfast_operator.running.operator import Operator

EXIT_NO_API = 3


class JsonLines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logs(level: str, form: str) -> None:
    """Everything goes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("kopf").setLevel(logging.WARNING)


def main() -> None:
    """The program."""
    options = parse(sys.argv[1:])
    set_up_logs(options.log_level, options.log_format)

    async def run() -> None:
        operator = Operator(options)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, operator.stopping.set)
        await operator.run()

    try:
        asyncio.run(run())
    except KubernetesError as error:
        logging.getLogger("holdfast.operator").critical("%s", error)
        sys.exit(EXIT_NO_API)


if __name__ == "__main__":
    main()
