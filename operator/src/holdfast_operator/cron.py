"""Times as cron writes them: minute, hour, day of the month, month, day of the week; in UTC.

Each field has numbers, ranges, lists and steps: `*/15`, `1-5`, `0,30`. Sunday is 0 or 7. If both
days are restricted, either will do, as with cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final

LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
AHEAD: Final = timedelta(days=366 * 5)
"""The 29th of February comes within that."""
BEHIND: Final = timedelta(days=7)
"""What was missed earlier is let go."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The numbers of each field."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    """Whether a day of the month or a day of the week will do."""

    def has(self, day: date) -> bool:
        """Whether there are times on that day."""
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        fits = of_month or of_week if self.either else of_month and of_week
        return day.month in self.months and fits

    def times(self, day: date, zone: datetime) -> Iterator[datetime]:
        """On that day, in order."""
        if self.has(day):
            for hour in self.hours:
                for minute in self.minutes:
                    yield datetime.combine(day, time(hour, minute), zone.tzinfo)


def parse(text: str) -> Schedule:
    """ValueError if it is none."""
    fields = text.split(" ")
    if len(fields) != len(LIMITS):
        raise ValueError(f"{text!r} has not five fields")
    found = [_numbers(each, *limits) for each, limits in zip(fields, LIMITS, strict=True)]
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    minutes, hours, days, months, weekdays = found
    return Schedule(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(each % 7 for each in weekdays),
        either,
    )


def is_schedule(text: str) -> bool:
    """Whether it can be read."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _numbers(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step_text = part.partition("/")
        step = int(step_text) if slash else 1
        first, dash, last = span.partition("-")
        begin = low if span == "*" else int(first)
        end = high if span == "*" or (slash and not dash) else int(last) if dash else begin
        if not (low <= begin <= end <= high and step > 0):
            raise ValueError(f"{field!r} is not within {low} and {high}")
        found |= set(range(begin, end + 1, step))
    return found


def latest(schedule: Schedule, after: datetime, now: datetime) -> datetime | None:
    """The last time that has come since; None if none has."""
    day, first = now.date(), max(after, now - BEHIND)
    while day >= first.date():
        due = [each for each in schedule.times(day, now) if first < each <= now]
        if due:
            return due[-1]
        day -= timedelta(days=1)
    return None


def following(schedule: Schedule, now: datetime) -> datetime | None:
    """The next time; None if there is none, as with the 30th of February."""
    day = now.date()
    while day <= (now + AHEAD).date():
        for each in schedule.times(day, now):
            if each > now:
                return each
        day += timedelta(days=1)
    return None
