"""Logs: one line an event, as text for people or as JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from holdfast.core.effects import Notice, NoticeKind

LOG: Final = logging.getLogger("holdfast.cluster")

LEVELS: Final[dict[NoticeKind, int]] = {
    NoticeKind.PARTITION_LOST: logging.ERROR,
    NoticeKind.WRITES_LOST: logging.ERROR,
    NoticeKind.REFUSED: logging.ERROR,
    NoticeKind.EXCLUDED: logging.WARNING,
    NoticeKind.LOST_MASTERSHIP: logging.WARNING,
    NoticeKind.CHANGE_WITHDRAWN: logging.WARNING,
    NoticeKind.RECOVERY_WAITS: logging.WARNING,
    NoticeKind.MEMORY_FULL: logging.ERROR,
    NoticeKind.MIGRATION_ENDED: logging.DEBUG,
}
"""How loud a notice is; the others are information."""


class Format(StrEnum):
    """How lines look."""

    TEXT = "text"
    JSON = "json"


class Level(StrEnum):
    """What is worth a line."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class JsonLines(logging.Formatter):
    """One JSON object a line; what `extra={"fields": {...}}` has comes as members of it."""

    def __init__(self, member: str) -> None:
        super().__init__()
        self._member = member

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "member": self._member,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """For people."""

    def __init__(self, member: str) -> None:
        super().__init__()
        self._member = member

    def format(self, record: logging.LogRecord) -> str:
        """The line; of an error, where it came from stands below."""
        message = " ".join(record.getMessage().splitlines())  # nobody else makes lines of ours
        text = f"{_when(record)} {record.levelname:<8} {self._member}: {message}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def set_up(log_format: Format, level: Level, member: str) -> None:
    """Everything of ours goes to stderr from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(member) if log_format is Format.JSON else TextLines(member))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    chatty = logging.DEBUG if level is Level.DEBUG else logging.WARNING
    logging.getLogger("httpx").setLevel(chatty)  # a line for each probe of each member


def tell(notice: Notice) -> None:
    """A notice of the node as a line."""
    detail = f": {notice.detail}" if notice.detail else ""
    fields = {"notice": notice.kind.value, "about": notice.about, "detail": notice.detail}
    LOG.log(
        LEVELS.get(notice.kind, logging.INFO),
        "%s %s%s",
        notice.kind,
        notice.about,
        detail,
        extra={"fields": fields},
    )
