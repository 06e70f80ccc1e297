"""All figures, in the order in which they are measured."""

from __future__ import annotations

from typing import Final

from bench.figures import (
    backup,
    convert,
    durable,
    failover,
    footprint,
    forwarding,
    hazelcast,
    loading,
    migrations,
    one_member,
    parallel,
    persistence,
    rejoin,
    rescale,
    spark,
)
from bench.running import Figure

ALL: Final[tuple[Figure, ...]] = (
    *one_member.FIGURES,
    *backup.FIGURES,
    *durable.FIGURES,
    *persistence.FIGURES,
    *loading.FIGURES,
    *rejoin.FIGURES,
    *forwarding.FIGURES,
    *footprint.FIGURES,
    *migrations.FIGURES,
    *parallel.FIGURES,
    *rescale.FIGURES,
    *failover.FIGURES,
    *spark.FIGURES,
    *convert.FIGURES,
    *hazelcast.FIGURES,
)
