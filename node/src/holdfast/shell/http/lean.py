"""httpx without its own command line.

`httpx` brings `rich`, `pygments` and `click` in for that where they are installed, and they are, as
`holdfast` has a command line itself: 3.4 MiB in every member. It goes without where they are not.
"""

from __future__ import annotations

import sys
from typing import Final

COMMAND_LINE: Final = "httpx._main"

if "httpx" not in sys.modules:
    sys.modules[COMMAND_LINE] = None  # type: ignore[assignment]  # so its import fails
    import httpx

    del sys.modules[COMMAND_LINE]
else:
    import httpx

__all__ = ["httpx"]
