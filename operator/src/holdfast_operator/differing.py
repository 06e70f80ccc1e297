"""Whether an object is as it is to be: what is wanted must be there, more may be.

The API server fills in defaults, and other controllers add labels and annotations. So only what we
say is compared; quantities by their number, as the server writes `1000m` as `1`.
"""

from __future__ import annotations

from typing import Any

from holdfast_operator.quantities import number


def covers(live: Any, wanted: Any) -> bool:
    """Whether all of `wanted` stands in `live`."""
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return not wanted and live is None
        return all(covers(live.get(key), each) for key, each in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(live, list):
            return not wanted and live is None
        return len(live) == len(wanted) and all(
            covers(one, other) for one, other in zip(live, wanted, strict=True)
        )
    if live == wanted:
        return True
    if isinstance(live, str) and isinstance(wanted, str):
        first = number(live)
        return first is not None and first == number(wanted)
    return live is None and wanted in ("", False)
