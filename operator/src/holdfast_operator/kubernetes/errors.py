"""What can go wrong with the API server.

KubernetesError
├── ApiUnreachable     nobody answers there
├── NoAccess           no way to the API server was found in the environment
└── ApiRefused         the API server answered no; `code` is HTTP's
    ├── Forbidden      RBAC does not allow it
    ├── Missing        there is no such object
    └── Conflict       the object is another one by now, or belongs to somebody else
"""

from __future__ import annotations


class KubernetesError(Exception):
    """Base of the tree."""


class ApiUnreachable(KubernetesError):
    """Nobody answers there."""


class NoAccess(KubernetesError):
    """No way to the API server was found in the environment."""


class ApiRefused(KubernetesError):
    """The API server answered no."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class Forbidden(ApiRefused):
    """RBAC does not allow it."""


class Missing(ApiRefused):
    """There is no such object."""


class Conflict(ApiRefused):
    """The object is another one by now, or belongs to somebody else."""


KINDS: dict[int, type[ApiRefused]] = {403: Forbidden, 404: Missing, 409: Conflict}


def refusal(code: int, message: str) -> ApiRefused:
    """The error of an answer."""
    return KINDS.get(code, ApiRefused)(code, message)
