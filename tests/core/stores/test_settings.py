"""What may be configured for a name."""

from __future__ import annotations

import pytest

from holdfast.core.stores.settings import NameSettings
from holdfast.errors import ConfigurationError


def test_defaults() -> None:
    settings = NameSettings()
    assert settings.copies == 2
    assert NameSettings(backups=2, async_backups=4).copies == 7


@pytest.mark.parametrize("depth", [2, 16])
def test_depths_of_a_tree(depth: int) -> None:
    assert NameSettings(merkle_depth=depth).merkle_depth == depth


@pytest.mark.parametrize("depth", [0, 1, 17])
def test_impossible_depths(depth: int) -> None:
    with pytest.raises(ConfigurationError, match=f"2 to 16, not {depth}"):
        NameSettings(merkle_depth=depth)


def test_every_reason_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        NameSettings(backups=7, ttl_ms=-1, idle_ms=-2, merkle_depth=1)
    text = str(caught.value)
    assert "ttl_ms must not be negative, it is -1" in text
    assert "idle_ms must not be negative, it is -2" in text
    assert "7 synchronous and 0 asynchronous backups: a partition has at most 6" in text
    assert "merkle_depth must be 2 to 16, not 1" in text
