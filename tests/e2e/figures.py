"""Figures that a run measures: printed at its end, and asserted with generous bounds alone."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """One of them."""

    what: str
    value: float
    unit: str
    wanted: float


@dataclass
class Figures:
    """Of a run."""

    all: list[Figure] = field(default_factory=list)

    def note(self, what: str, value: float, unit: str, *, wanted: float, bound: float) -> None:
        """`wanted` is what a machine of its own reaches; beyond `bound` something is broken."""
        self.all.append(Figure(what, value, unit, wanted))
        assert value <= bound, f"{what}: {value:.1f} {unit}, far beyond {wanted:g}"

    def table(self) -> list[str]:
        """For people."""
        lines = [f"{'figure':<58} {'measured':>10} {'to reach':>10}"]
        for each in self.all:
            unit = each.unit
            mark = unit if each.value <= each.wanted else f"{unit}  above"
            lines.append(f"{each.what:<58} {each.value:>7.1f} {unit:<3} {each.wanted:>6g} {mark}")
        return lines
