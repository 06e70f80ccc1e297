"""The program `holdfast`: it can be told to end while it still reads its own modules.

The first process of a container has no default for SIGTERM: one that comes before there is a
handler is lost, and a pod that is deleted while it starts would stay for its whole grace period.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """The command line, once it is read; what a command installs takes the place of this."""
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    from holdfast.cli.main import main as run

    sys.exit(run())
