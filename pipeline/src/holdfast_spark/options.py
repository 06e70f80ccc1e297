"""Every option of the format: its name, what it is for, what is allowed, and who takes it.

This list is the only place: what Spark hands over is checked against it, and what is not in it is
refused with the nearest name that is. Options come as text; their names in any case, as Spark's.
A few are Spark's own and are let through (`SPARKS_OWN`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any, Final, Self

from holdfast_spark.errors import OptionError

SPARKS_OWN: Final = frozenset(("path", "checkpointlocation", "querymode", "mergeschema"))
"""What Spark adds by itself, or understands itself."""

DEFAULT_MAP: Final = "default"
"""Where keys without a colon are."""


class Use(Enum):
    """What a session does with the format; each takes some of the options."""

    READ = "batch read"
    WRITE = "batch write"
    FOLLOW = "stream read"
    SINK = "stream write"


READS: Final = frozenset((Use.READ, Use.FOLLOW))
WRITES: Final = frozenset((Use.WRITE, Use.SINK))
ALL: Final = frozenset(Use)


class Format(Enum):
    """How a value is written."""

    RAW = "raw"
    JSON = "json"
    MSGPACK = "msgpack"


class Keys(Enum):
    """How a key of a map is shown."""

    SHORT = "short"
    FULL = "full"


class Undecodable(Enum):
    """What becomes of a value that is not what the reader was told."""

    FAIL = "fail"
    NULL = "null"
    SKIP = "skip"


class Gap(Enum):
    """What becomes of a stream whose next changes are not kept any more."""

    FAIL = "fail"
    REREAD = "reread"


class Start(Enum):
    """Where a new stream begins."""

    SNAPSHOT = "snapshot"
    OLDEST = "oldest"
    NEWEST = "newest"


# What text may be ---------------------------------------------------------------------------------


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def _list(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("it is empty")
    return found


def _endpoints(text: str) -> tuple[str, ...]:
    found = _list(text)
    for each in found:
        if not each.startswith("http://") or len(each) == len("http://"):
            raise ValueError(
                f"{each!r} is no address of the HTTP port of a member, like http://host:8080"
                + (" (that port has no TLS yet)" if each.startswith("https://") else "")
            )
    return found


def _truth(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("it is neither true nor false") from None


def _number(low: float, high: float) -> Callable[[str], int]:
    def read(text: str) -> int:
        found = int(text) if text.strip().isascii() else 0
        if not low <= found <= high:
            raise ValueError(f"it is not a number from {low:.0f} to {high:.0f}")
        return found

    return read


def _seconds(high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        found = float(text)
        if not 0 < found <= high:
            raise ValueError(f"it is not above 0 and at most {high:.0f}")
        return found

    return read


def _one_of(kind: type[Enum]) -> Callable[[str], Enum]:
    def read(text: str) -> Enum:
        try:
            return kind(text.strip().lower())
        except ValueError:
            raise ValueError("it is none of " + ", ".join(each.value for each in kind)) from None

    return read


def option(
    read: Callable[[str], Any],
    text: str,
    default: Any = MISSING,
    *,
    uses: Iterable[Use] = ALL,
    shown: bool = True,
) -> Any:
    """An option; without a default it has to be given. Secret ones are not `shown`."""
    metadata = {"read": read, "text": text, "uses": frozenset(uses)}
    return field(default=default, repr=shown, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one use, each checked by itself, and together."""

    endpoints: tuple[str, ...] = option(
        _endpoints, "addresses of the HTTP ports of members, with commas: http://host:8080"
    )
    map: str = option(_text, "the name of the map")
    secret: str = option(str, "the cluster's secret", "", shown=False)
    secret_file: str = option(
        _text, "file with the cluster's secret, on the driver and on each executor", ""
    )
    tls: bool = option(_truth, "refused as long as the HTTP ports of members have no TLS", False)
    patience_seconds: float = option(
        _seconds(86_400), "how long a member that does not answer is waited for", 60.0
    )
    keys: Keys = option(
        _one_of(Keys), "short: as `1` for users:1; full: as clients of Redis write them", Keys.SHORT
    )
    format: Format = option(
        _one_of(Format), "how values are written: raw, json, msgpack", Format.RAW
    )
    columns: tuple[str, ...] = option(
        _list, "columns of the default schema to have, with commas", (), uses=READS
    )
    pushdown: bool = option(
        _truth,
        "take filters from Spark, where its conf allows; such a DataFrame is for one query alone",
        False,
        uses=(Use.READ,),
    )
    undecodable: Undecodable = option(
        _one_of(Undecodable),
        "a value that can't be decoded: fail, null, or skip",
        Undecodable.FAIL,
        uses=READS,
    )
    tasks: int = option(
        _number(0, 100_000), "tasks of a read; 0: as many as parts of 32 partitions", 0, uses=READS
    )
    parallel: int = option(_number(1, 64), "requests at a time of a task", 4)
    hold_bytes: int = option(
        _number(1 << 20, 1 << 32),
        "of a partition, so much is held until all of it is there; beyond, a death is an error",
        64 << 20,
        uses=(Use.READ,),
    )
    batch_bytes: int = option(
        _number(64 << 10, 64 << 20),
        "blocks are put together until an Arrow batch has so many bytes",
        256 << 10,
        uses=READS,
    )
    delete_column: str = option(
        _text, "column that says whether a row removes its key", "", uses=WRITES
    )
    ttl_column: str = option(
        _text, "column with the seconds that a row lives; null: as the map says", "", uses=WRITES
    )
    life_seconds: float = option(
        _seconds(7 * 86_400),
        "how long what a job laid aside outlives its tasks",
        3_600.0,
        uses=WRITES,
    )
    start: Start = option(
        _one_of(Start),
        "a new stream begins with all that is there, or at the oldest or newest change",
        Start.SNAPSHOT,
        uses=(Use.FOLLOW,),
    )
    gap: Gap = option(
        _one_of(Gap),
        "changes that are not kept any more: fail, or reread the partition as it is",
        Gap.FAIL,
        uses=(Use.FOLLOW,),
    )
    max_changes: int = option(
        _number(0, 1 << 40), "changes in a micro-batch at most; 0: no limit", 0, uses=(Use.FOLLOW,)
    )

    @classmethod
    def of(cls, given: Mapping[str, str], *uses: Use) -> Self:
        """Read what Spark hands over for one of these uses; every problem is an `OptionError` that
        names the option."""
        known = {each.name.replace("_", ""): each for each in fields(cls)}
        values: dict[str, Any] = {}
        for name, text in given.items():
            found = known.get(name.lower().replace("_", ""))
            if found is None:
                if name.lower() in SPARKS_OWN:
                    continue
                raise OptionError(_unknown(name, (each.name for each in known.values())))
            if found.metadata["uses"].isdisjoint(uses):
                raise OptionError(f"option '{found.name}' is not for a {uses[0].value}")
            try:
                values[found.name] = found.metadata["read"](text)
            except ValueError as error:
                shown = repr(text) if found.repr else "what was given"
                raise OptionError(f"option '{found.name}': {shown}: {error}") from None
        for each in known.values():
            if each.default is MISSING and each.name not in values:
                raise OptionError(f"option '{each.name}' is missing: {each.metadata['text']}")
        found_options = cls(**values)
        found_options.check()
        return found_options

    def check(self) -> None:
        """What can't be together."""
        if self.tls:
            raise OptionError(
                "option 'tls': the HTTP ports of members have no TLS yet; leave it out, and keep"
                " them on a network of your own"
            )
        if ":" in self.map:
            raise OptionError(f"option 'map': {self.map!r}: the name of a map has no colon")
        if self.map == DEFAULT_MAP and self.keys is Keys.SHORT:
            raise OptionError(
                f"option 'keys': keys of the map {DEFAULT_MAP!r} may have no colon; say full"
            )
        if self.secret and self.secret_file:
            raise OptionError("options 'secret' and 'secret_file' exclude each other")

    def secret_bytes(self) -> bytes:
        """The secret, from wherever it is."""
        if not self.secret_file:
            return self.secret.encode()
        try:
            return Path(self.secret_file).read_bytes().strip()
        except OSError as error:
            what = f"option 'secret_file': {self.secret_file}: {error.strerror}"
            raise OptionError(what) from error


def _unknown(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return f"option '{name}' is unknown{hint}"
