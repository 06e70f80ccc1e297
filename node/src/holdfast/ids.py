"""The names that every layer shares: small types that the type checker can tell apart.

Nothing here has behaviour. A `Replicas` is one row of the partition table: the member at each
replica index, the owner first, `None` where the index is vacant (seed 002, "Background").
"""

from __future__ import annotations

from typing import Final, NewType

MemberId = NewType("MemberId", str)
"""Identity of a member: a UUID kept with its hot-restart files (`design/3` §1)."""

PartitionId = NewType("PartitionId", int)
"""Number of a partition, 0 to `partition_count` - 1."""

Address = NewType("Address", str)
"""Where a process is reached, as `host:port`. It may change at each start; the id does not."""

Term = NewType("Term", int)
"""Number of a mastership. At most one member is master in a term."""

Version = NewType("Version", int)
"""Version of one partition of the table; it only grows (seed 001 §1.2)."""

Millis = NewType("Millis", int)
"""A point or a span on a member's own monotonic clock, in milliseconds."""

Replicas = tuple[MemberId | None, ...]
"""Members by replica index, owner first; `None` is a vacant index."""

REPLICA_COUNT_MAX: Final = 7
"""An owner and at most six backups (seed 002, "Background")."""

PARTITION_COUNT_DEFAULT: Final = 271
PARTITION_COUNT_MAX: Final = 16_384
"""Each partition is a range of Redis' hash slots, so there can't be more of them than slots."""

NO_INDEX: Final = -1
"""The replica index of a member that is no replica (seed 002, "API design")."""
