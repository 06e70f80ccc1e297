"""What processes there are."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether it is there and not merely waiting to be reaped by whoever."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def children_of(pid: int) -> list[int]:
    """Processes whose parent it is, zombies too."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]
