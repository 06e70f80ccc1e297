"""The network: what becomes of a message between two sites.

A message may be lost, delayed, overtaken, repeated or damaged on the way. Between two sites there
may be a *cut*, in one direction or both; a site may be *slow*; messages of one kind may be *muted*
for a while, so that a protocol misses exactly one of its steps every time; a site may be *starved*
of a part of them.

The network knows sites by number. It decides only; the world carries.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

Key = TypeVar("Key")

TAIL_FACTOR: Final = 30
"""How much longer than usual a delay of the tail may be."""

SLOW_FACTOR: Final = 40


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """How good the network is. Probabilities are per message."""

    delay_us: int = 500
    """Mean delay of an ordinary message."""
    loss: float = 0.0
    tail: float = 0.0
    """How often a delay is of the long tail."""
    duplication: float = 0.0
    damage: float = 0.0
    """How often a bit of the frame is flipped."""
    ordered: bool = True
    """Whether messages between two sites keep their order."""


CLEAN: Final = NetworkOptions()


class Network:
    """Decides whether, when and how often a message arrives."""

    def __init__(self, rng: random.Random, options: NetworkOptions) -> None:
        self.rng = rng
        self.starve_rng = random.Random(0)
        """Of its own, so that nothing else changes where nobody is starved."""
        self.options = options
        self._cuts: dict[tuple[int, int], int] = {}
        self._slow: dict[int, int] = {}
        self._muted: dict[str, int] = {}
        self._starved: dict[tuple[str, int], float] = {}
        self._last: dict[tuple[int, int], int] = {}

    def route(self, source: int, target: int, kind: str, now_us: int) -> Sequence[int]:
        """The moments at which the message arrives; none when it is lost."""
        link = (source, target)
        if self._cuts and link in self._cuts:
            return ()
        if self._muted and kind in self._muted:
            return ()
        if self._starved and self.starve_rng.random() < self._starved.get((kind, target), 0.0):
            return ()
        options, rng = self.options, self.rng
        if options.loss and rng.random() < options.loss:
            return ()
        first = self._arrival(link, now_us)
        if options.duplication and rng.random() < options.duplication:
            return (first, self._arrival(link, now_us))
        return (first,)

    def _arrival(self, link: tuple[int, int], now_us: int) -> int:
        options, rng = self.options, self.rng
        delay = options.delay_us // 2 + int(rng.random() * options.delay_us)
        if options.tail and rng.random() < options.tail:
            delay += int(rng.random() * options.delay_us * TAIL_FACTOR)
        if self._slow and (link[0] in self._slow or link[1] in self._slow):
            delay += int(rng.random() * options.delay_us * SLOW_FACTOR)
        at = now_us + delay + 1
        if options.ordered:
            at = max(at, self._last.get(link, 0))
            self._last[link] = at
        return at

    def damaged(self, frame: bytes) -> bytes | None:
        """The frame with one bit flipped, if this one is to be damaged."""
        if not self.options.damage or self.rng.random() >= self.options.damage:
            return None
        bit = self.rng.randrange(len(frame) * 8)
        copy = bytearray(frame)
        copy[bit // 8] ^= 1 << bit % 8
        return bytes(copy)

    # Faults: each is counted, so that two that overlap end one by one -----------------------------

    def cut(self, links: Iterable[tuple[int, int]]) -> None:
        """From now on nothing passes these links."""
        _add(self._cuts, links)

    def heal(self, links: Iterable[tuple[int, int]]) -> None:
        """Undo one cut of these links."""
        _remove(self._cuts, links)

    def slow(self, site: int) -> None:
        """From now on all links of this site are slow."""
        _add(self._slow, (site,))

    def hasten(self, site: int) -> None:
        """Undo one slowness of this site."""
        _remove(self._slow, (site,))

    def mute(self, kind: str) -> None:
        """From now on messages of this kind are lost."""
        _add(self._muted, (kind,))

    def unmute(self, kind: str) -> None:
        """Undo one muting of this kind."""
        _remove(self._muted, (kind,))

    def starve(self, kind: str, target: int, share: float) -> None:
        """From now on this share of the messages of one kind to a site is lost."""
        self._starved[kind, target] = share

    def feed(self, kind: str, target: int) -> None:
        """They arrive again."""
        self._starved.pop((kind, target), None)

    def is_cut(self, source: int, target: int) -> bool:
        """Whether nothing passes this link."""
        return (source, target) in self._cuts

    def mend(self) -> None:
        """No cut, no slowness, nothing muted or starved, and a good network from now on."""
        self._cuts.clear()
        self._slow.clear()
        self._muted.clear()
        self._starved.clear()
        self.options = CLEAN


def _add(counts: dict[Key, int], keys: Iterable[Key]) -> None:
    for key in keys:
        counts[key] = counts.get(key, 0) + 1


def _remove(counts: dict[Key, int], keys: Iterable[Key]) -> None:
    for key in keys:
        count = counts.get(key, 0)
        if count > 1:
            counts[key] = count - 1
        else:
            counts.pop(key, None)


def split(groups: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """The links that a partition into these groups cuts, both ways."""
    return tuple(
        (source, target)
        for group in groups
        for other in groups
        if other is not group
        for source in group
        for target in other
    )
