"""What every ring of tests shares: how hard Hypothesis tries, and an option of the scenarios.

`HYPOTHESIS_PROFILE` chooses. `dev` draws new examples at each run, so that a day of work is also a
day of search; `ci` draws the same ones each time, so that a red build means the change; `nightly`
draws many. No profile has a deadline: a slow machine is not a bug.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests.scheduling import ByPlace

settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly",
    deadline=None,
    max_examples=5_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite`: write the traces of the text scenarios anew instead of comparing them."""
    parser.addoption("--rewrite", action="store_true", help="rewrite the scenarios' traces")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByPlace:
    """Where tests run side by side, those that share something share a worker."""
    return ByPlace(config, log)
