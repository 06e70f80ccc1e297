"""Whether whoever asks knows the cluster's secret; here is nothing of a framework."""

from __future__ import annotations

import hmac
from typing import Final

BEARER: Final = b"bearer "
HOW: Final = "send it as 'Authorization: Bearer SECRET'"
CHALLENGE: Final = 'Bearer realm="holdfast"'


def knows(secret: bytes, authorization: bytes) -> bool:
    """Whether this header has the secret of the cluster, if there is one."""
    if not secret:
        return True
    token = authorization[len(BEARER) :].strip()
    fits = hmac.compare_digest(token, secret.strip())
    return fits and authorization.lower().startswith(BEARER)
