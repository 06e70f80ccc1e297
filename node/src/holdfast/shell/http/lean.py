"""httpx without what costs a member something and gives it nothing.

*Its own command line.* It brings `rich`, `pygments` and `click` in where they are installed, and
they are, as `holdfast` has a command line itself: 3.4 MiB in every member. It goes without where
they are not.

*The question which event loop there is.* `httpcore` asks `sniffio` in each request several times,
and takes asyncio where that is not installed. To look for it on the disk each time was a third of
a request; what is known not to be there is not looked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

COMMAND_LINE: Final = "httpx._main"
LOOPS: Final = "sniffio"

if "httpx" not in sys.modules:
    sys.modules[COMMAND_LINE] = None  # type: ignore[assignment]  # so its import fails
    import httpx

    del sys.modules[COMMAND_LINE]
else:
    import httpx

try:
    import_module(LOOPS)
except ModuleNotFoundError:
    sys.modules[LOOPS] = None  # type: ignore[assignment]  # so its import fails at once

__all__ = ["httpx"]
