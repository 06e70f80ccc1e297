"""`holdfast-probe ready|live PORT...`: whether every member of a pod says so.

A kubelet's own probe asks one port; a pod with several processes has several. It is started often,
so it imports nothing but the standard library.
"""

from __future__ import annotations

import sys
from http.client import HTTPConnection, HTTPException
from typing import Final

SECONDS: Final = 4.0
USAGE: Final = "usage: holdfast-probe ready|live PORT..."


def main() -> None:
    """Exit code 0: all of them. 1: not all. 2: bad input."""
    sys.exit(probe(sys.argv[1:]))


def probe(arguments: list[str]) -> int:
    """The same as a number."""
    what, ports = (arguments or [""])[0], arguments[1:]
    if what not in ("ready", "live") or not ports or not all(p.isdecimal() for p in ports):
        sys.stderr.write(USAGE + "\n")
        return 2
    reasons = [reason for port in ports if (reason := _ask(what, int(port)))]
    sys.stderr.writelines(f"{reason}\n" for reason in reasons)
    return 1 if reasons else 0


def _ask(what: str, port: int) -> str:
    """Why not, if not."""
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", f"/healthz/{what}")
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        return f"port {port}: {error}"
    finally:
        connection.close()
    return "" if answer.status == 200 else f"port {port}: {body}"
