"""What the operator counts, in the text format of Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

PREFIX: Final = "holdfast_operator_"
BUCKETS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters, a histogram of durations, and gauges that are asked when they are read."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._texts: dict[str, str] = {}
        self._durations: list[float] = [0.0] * (len(BUCKETS) + 1)
        self._total = 0.0
        self._gauges: list[tuple[str, str, Callable[[], Mapping[Labels, float]]]] = []

    def count(self, name: str, text: str, **labels: str) -> None:
        """One more."""
        self._texts[name] = text
        self._counts[name][tuple(sorted(labels.items()))] += 1

    def gauge(self, name: str, text: str, read: Callable[[], Mapping[Labels, float]]) -> None:
        """A number that is so when it is asked for."""
        self._gauges.append((name, text, read))

    def took(self, seconds: float) -> None:
        """One reconciliation."""
        at = next((i for i, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))
        self._durations[at] += 1
        self._total += seconds

    def of_request(self, verb: str, plural: str, code: int) -> None:
        """One request to the API server; code 0: it was not answered."""
        text = "Requests to the API server."
        self.count("api_requests_total", text, verb=verb, resource=plural, code=str(code))

    def text(self) -> str:
        """Everything."""
        return "\n".join([*self._counters(), *self._histogram(), *self._gauged()]) + "\n"

    def _counters(self) -> Iterator[str]:
        for name, values in self._counts.items():
            yield from _head(name, self._texts[name], "counter")
            yield from (_line(name, labels, value) for labels, value in values.items())

    def _histogram(self) -> Iterator[str]:
        name = "reconcile_seconds"
        yield from _head(name, "What a look at a cluster and what followed took.", "histogram")
        so_far = 0.0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._durations, strict=True):
            so_far += count
            yield _line(f"{name}_bucket", (("le", bound),), so_far)
        yield _line(f"{name}_sum", (), self._total)
        yield _line(f"{name}_count", (), so_far)

    def _gauged(self) -> Iterator[str]:
        for name, text, read in self._gauges:
            yield from _head(name, text, "gauge")
            yield from (_line(name, labels, value) for labels, value in read().items())


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {text}"
    yield f"# TYPE {PREFIX}{name} {kind}"


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{PREFIX}{name}{{{inside}}} {value}" if inside else f"{PREFIX}{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
