"""Requests: each gets exactly one answer, from the member that was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.effects import Answer
from holdfast.core.messages import Request
from holdfast.sim.checkers.watch import Change
from holdfast.sim.process import Process
from holdfast.sim.world import World


class Requests:
    """What was asked, and what came back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._open: dict[str, tuple[Process, Request]] = {}

    def asked(self, process: Process, request: Request) -> None:
        """This was asked there."""
        self._open[request.id] = (process, request)

    def stepped(self, change: Change) -> None:
        """Look for answers."""
        for answer in change.answers:
            self._answered(change.process, answer)

    def _answered(self, process: Process, answer: Answer) -> None:
        opened = self._open.pop(answer.request, None)
        if opened is None or opened[0] is not process:
            raise self.world.violation(
                "one answer for each request",
                f"{process.name} answers {answer.request}, which nobody waits for there",
            )
        self.world.marks[f"{opened[1].ask}: {answer.error or 'done'}"] += 1

    def is_open(self, request_id: str) -> bool:
        """Whether this was asked and not answered, and the asked one lives."""
        return request_id in self._open

    def waiting(self, among: Sequence[Process]) -> Iterator[str]:
        """Requests without an answer that were asked at one of these."""
        for process, request in self._open.values():
            if process not in among:
                continue
            yield f"{request.id} ({request.ask}) asked at {process.name} has no answer"

    def ended(self, process: Process) -> None:
        """Whoever asked there knows that it is gone."""
        gone = [key for key, (asked, _) in self._open.items() if asked is process]
        for key in gone:
            del self._open[key]
