"""What goes wrong in the connector, in the tree of `holdfast.errors`.

    HoldfastError
    └── SparkError                 a use of the connector that can't go on
        ├── OptionError            an option that is missing, unknown, or makes no sense here
        ├── SchemaError            columns that can't be read or written so
        ├── ClusterError           the cluster does not answer, or refuses us
        ├── ValueUndecodable       a value that is not what the reader was told
        ├── RowRefused             a row that can't be written
        └── ChangesLost            changes that are not kept any more were to be read

Each names what it is about: the option, the map, the partition, the endpoint. All of them can be
pickled, since they go from executors to the driver.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError


class SparkError(HoldfastError):
    """Base of the connector's errors."""

    def __reduce__(self) -> tuple[type[SparkError], tuple[str]]:
        return type(self), (self.message,)


class OptionError(SparkError):
    """An option that is missing, unknown, or makes no sense here."""


class SchemaError(SparkError):
    """Columns that can't be read or written so."""


class ClusterError(SparkError):
    """The cluster does not answer, or refuses us."""


class ValueUndecodable(SparkError):
    """A value that is not what the reader was told."""


class RowRefused(SparkError):
    """A row that can't be written."""


class ChangesLost(SparkError):
    """Changes that are not kept any more were to be read."""
