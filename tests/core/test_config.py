"""Settings say everything that is wrong with them at once."""

from __future__ import annotations

import pytest

from holdfast.core.config import Config
from holdfast.errors import ConfigurationError
from holdfast.ids import Millis


def test_defaults_work() -> None:
    assert Config().partition_count == 271


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"partition_count": 0}, "partition_count must be 1 to 16384, not 0"),
        ({"partition_count": 16_385}, "partition_count must be 1 to 16384, not 16385"),
        ({"replica_count": 8}, "replica_count must be 1 to 7, not 8"),
        ({"backup_count": -1}, "backup_count must be 0 to 6, not -1"),
        ({"level": 0}, "level must be 1 to 3, not 0"),
        ({"level": 4}, "level must be 1 to 3, not 4"),
        ({"migrations_parallel_max": 0}, "migrations_parallel_max must be 1 to 10000, not 0"),
        ({"plan_slice_rows": 0}, "plan_slice_rows must be 1 to 16384, not 0"),
        ({"retry_ms": Millis(-1)}, "retry_ms must not be negative, it is -1"),
        (
            {"stable_repair_after_ms": Millis(-5)},
            "stable_repair_after_ms must not be negative, it is -5",
        ),
        (
            {"replica_count": 2, "backup_count": 2},
            "2 backups and an owner do not fit a row of 2 replicas",
        ),
        ({"heartbeat_ms": Millis(700)}, "three heartbeats of 700 ms must fit a lease of 2000 ms"),
    ],
)
def test_each_setting_has_its_reason(settings: dict[str, int], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Config(**settings)  # type: ignore[arg-type]
    assert caught.value.reasons == (reason,)


def test_every_reason_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Config(partition_count=0, replica_count=0, level=9, lease_ms=Millis(-1))
    assert len(caught.value.reasons) == 6
    assert str(caught.value).count(";") == 5
