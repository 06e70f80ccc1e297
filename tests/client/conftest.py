"""Running clusters for the tests of clients: one for each module, and each kind."""

from __future__ import annotations

from tests.shell.http.conftest import one, several

__all__ = ["one", "several"]
