"""How far something is that takes long: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5

Result = TypeVar("Result")


class Bar:
    """One thing under way."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._told_at = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, done: int, total: int, note: str = "") -> None:
        """So far it is."""
        text = f"{self._what}: {note}" if note else self._what
        self._bar.update(self._task, description=text, completed=done, total=total or None)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._told_at >= LINE_SECONDS:
            self._told_at = now
            self._console.print(f"{text}: {done} of {total}", soft_wrap=True)


async def watched(
    action: Coroutine[Any, Any, Result], look: Callable[[], Awaitable[None]]
) -> Result:
    """Await something that takes long, and look now and then how far it is."""
    task = asyncio.get_running_loop().create_task(action)
    try:
        while not (await asyncio.wait((task,), timeout=LOOK_SECONDS))[0]:
            await look()
        return await task
    finally:
        task.cancel()
