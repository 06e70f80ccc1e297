"""A dumb oracle for plans: it replays the steps on plain rows and names every rule that is broken.

It knows nothing of the planner. Rows are tuples of names and `None`; a move is the plain tuple
`(type, source, current, new, destination, current, new)`; a step is a sequence of moves. The rules
are those at the head of `holdfast.core.planner`, each written down once more from scratch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

Row = tuple[str | None, ...]
PlainMove = tuple[str, str | None, int, int, str | None, int, int]
PlainStep = Sequence[PlainMove]


class Broken(Exception):
    """The first rule that does not hold, with the row at which it was seen."""


def must(holds: bool, rule: str, row: Row) -> None:
    """Say which rule is broken, unless it holds."""
    if not holds:
        raise Broken(f"{rule} at {row}")


# --- replaying ---------------------------------------------------------------------------------


def replay(row: Row, step: PlainStep) -> Row:
    """The row after a step. Everyone must be where the step says, and every new slot free."""
    after = list(row)
    for _, source, source_now, _, destination, destination_now, _ in step:
        for member, slot in ((source, source_now), (destination, destination_now)):
            if slot >= 0:
                must(member is not None and after[slot] == member, f"{member} is at {slot}", row)
                after[slot] = None
            else:
                must(member not in row or member is None, f"{member} is not in the row", row)
    for _, source, _, source_new, destination, _, destination_new in step:
        for member, slot in ((source, source_new), (destination, destination_new)):
            if slot >= 0:
                must(member is not None and after[slot] is None, f"slot {slot} is free", row)
                after[slot] = member
    members = [member for member in after if member is not None]
    must(len(set(members)) == len(members), "no member is twice in a row", tuple(after))
    return tuple(after)


def check_type(row: Row, move: PlainMove, *, alone: bool) -> None:
    """The type says what the indexes say (seed 002 §3.1)."""
    kind, source, source_now, source_new, destination, destination_now, new = move
    if destination is None:
        right = kind == "MOVE" and (source_new, destination_now, new) == (-1, -1, -1)
    elif source_new >= 0:
        right = kind == "SHIFT DOWN" and source_now == new < source_new
    elif destination_now >= 0:
        right = kind == ("SHIFT UP" if new < destination_now else "SHIFT DOWN")
    else:
        right = kind == ("COPY" if source is None else "MOVE")
    must(right, f"{kind} is the type of {move}", row)
    if destination is not None and alone:
        must(row[new] == source, f"{source} holds slot {new} before {move}", row)


# --- counting ----------------------------------------------------------------------------------


def copies(row: Row, backups: int) -> list[int]:
    """Filled slots: in all, and when fewer than six backups are asked for, in slots 0..k."""
    filled = [member is not None for member in row]
    prefixes = range(1, backups + 2) if backups < 6 else ()
    return [sum(filled), *(sum(filled[:length]) for length in prefixes)]


def is_below(row: Row, current: Row, target: Row, backups: int) -> bool:
    """Whether the row has fewer copies than both of the ends, anywhere where they count."""
    counts = zip(
        copies(row, backups), copies(current, backups), copies(target, backups), strict=True
    )
    return any(now < min(before, after) for now, before, after in counts)


def chains(current: Row, target: Row) -> list[frozenset[int]]:
    """For each slot, all the slots that depend on it: linked where a member changes its slot."""
    group = list(range(len(current)))
    for slot, member in enumerate(current):
        if member is not None and member in target:
            old, new = group[slot], group[target.index(member)]
            group = [new if one == old else one for one in group]
    return [
        frozenset(slot for slot in range(len(current)) if group[slot] == group[one])
        for one in range(len(current))
    ]


def kept_slots(current: Row, target: Row) -> tuple[int, ...]:
    """The cycles by their definition: sets of filled, differing slots with the same members."""
    differing = [
        slot
        for slot in range(len(current))
        if None not in (current[slot], target[slot]) and current[slot] != target[slot]
    ]
    kept: set[int] = set()
    for size in range(2, len(differing) + 1):
        for slots in combinations(differing, size):
            if {current[slot] for slot in slots} == {target[slot] for slot in slots}:
                kept.update(slots)
    return tuple(sorted(kept))


# --- the rules ---------------------------------------------------------------------------------


def check_plan(
    current: Row, target: Row, steps: Sequence[PlainStep], backups: int = 6
) -> list[Row]:
    """Raise `Broken` unless the plan keeps every rule; else the rows after its steps."""
    rows = [current]
    for step in steps:
        for move in step:
            check_type(rows[-1], move, alone=len(step) == 1)
        rows.append(replay(rows[-1], step))
    must(rows[-1] == target, "the target is reached", rows[-1])
    check_owner(rows)
    check_copies(rows, steps, backups)
    begin = start_of(current, target, steps, backups)
    check_order(rows[begin:], steps[begin:], backups)
    check_data(rows[begin:])
    check_priority(rows, steps)
    return rows[1:]


def start_of(current: Row, target: Row, steps: Sequence[PlainStep], backups: int) -> int:
    """How many steps give a row that lost its owner a new one; the order begins after them."""
    if not steps or current[0] is not None or not any(current):
        return 0
    _, _, _, _, heir, home, new = steps[0][0]
    hottest = next(slot for slot, member in enumerate(current) if member is not None)
    at_hand = target[0] is not None and target[0] in current[: backups + 1]
    right = current.index(target[0]) if at_hand else hottest
    must((len(steps[0]), home, new) == (1, right, 0), "the first step promotes", current)
    if heir == target[0]:
        return 0
    for count, step in enumerate(steps, start=1):
        if (step[0][1], step[0][3], step[0][4]) == (heir, home, target[0]) and step[0][5] >= 0:
            return count
    return 1


def check_owner(rows: list[Row]) -> None:
    """Slot 0 is filled while anyone lives; a target without owner may come last."""
    if any(rows[0]) or rows[-1][0] is not None:
        for row in rows[1:-1]:
            must(row[0] is not None, "the owner is there", row)


def check_copies(rows: list[Row], steps: Sequence[PlainStep], backups: int) -> None:
    """Copies never dip, and a step has several moves only where a shorter one would dip."""
    current, target = rows[0], rows[-1]
    for row, step in zip(rows, steps, strict=False):
        after = replay(row, step)
        must(not is_below(after, current, target, backups), "copies don't dip", after)
        for length in range(1, len(step)):
            must(backups < 6, "one migration a step", row)
            try:
                between = replay(row, step[:length])
            except Broken:
                continue
            must(is_below(between, current, target, backups), "steps are short", between)


def check_order(rows: list[Row], steps: Sequence[PlainStep], backups: int) -> None:
    """Hotter slots first; a settled slot stays; a filled one is vacated only for a hotter one."""
    if not steps:
        return
    start, target = rows[0], rows[-1]
    if target[0] is None and start[0] is not None:
        target = without_last_step(start, target)
        must(rows[-2] == target, "the owner goes last", rows[-2])
        rows = rows[:-1]
    chain_of = chains(start, target)
    wanted = [slot for slot, member in enumerate(target) if member is not None]
    for number, (row, after, step) in enumerate(zip(rows, rows[1:], steps, strict=False)):
        for slot in wanted:
            must(row[slot] != target[slot] or after[slot] == target[slot], "settled stays", after)
            if row[slot] is not None and after[slot] is None:
                check_vacated(row, after, target, slot)
        unsettled = [slot for slot in wanted if row[slot] != target[slot]]
        must((step[0][4] is None) == (not unsettled), "clearing is last", row)
        if not unsettled or is_preferred(step):
            continue
        ours, next_up = chain_of[step[0][6]], chain_of[unsettled[0]]
        gains_for_it = (
            change(start, target, next_up, backups) < 0 < change(start, target, ours, backups)
        )
        goes_on = backups < 6 and number > 0 and steps[number - 1][0][6] in ours
        must(
            ours == next_up or gains_for_it or goes_on,
            f"slot {unsettled[0]} goes before {step}",
            row,
        )


def without_last_step(start: Row, target: Row) -> Row:
    """What a target without owner is before the owner leaves slot 0."""
    return (start[0], *(None if member == start[0] else member for member in target[1:]))


def check_vacated(row: Row, after: Row, target: Row, slot: int) -> None:
    """A slot that the target fills becomes a hole only on the way up, or under a hotter one."""
    new = after.index(row[slot]) if row[slot] in after else slot
    successor = target[slot]
    origin = row.index(successor) if successor in row else len(row)
    must(new < slot or origin < slot, f"slot {slot} is a hole without need", after)


def change(start: Row, target: Row, slots: frozenset[int], backups: int) -> int:
    """Whether a chain adds copies (1), takes some (-1) or neither (0), where they count."""
    before, after = (
        copies(tuple(member if slot in slots else None for slot, member in enumerate(row)), backups)
        for row in (start, target)
    )
    differences = [new - old for old, new in zip(before, after, strict=True)]
    return int(max(differences) > 0) - int(min(differences) < 0)


def check_data(rows: list[Row]) -> None:
    """Who stays in the row never leaves it on the way when its chain ends in a vacant slot."""
    start, target = rows[0], rows[-1]
    for slot, member in enumerate(start):
        if member is None or member not in target:
            continue
        if any(start[other] is None for other in chains(start, target)[slot]):
            for row in rows:
                must(member in row, f"{member} keeps its data", row)


def is_preferred(step: PlainStep) -> bool:
    """A COPY, or a SHIFT UP into a vacant slot, in a step of its own."""
    return len(step) == 1 and step[0][0] in ("COPY", "SHIFT UP") and step[0][1] is None


def check_priority(rows: list[Row], steps: Sequence[PlainStep]) -> None:
    """No COPY or SHIFT UP directly behind a MOVE or SHIFT DOWN that should wait (§3.2.3)."""
    for row, before, step in zip(rows, steps, steps[1:], strict=False):
        if len(before) == 1 and is_preferred(step):
            must(not waits(before[0], step[0]), f"{step} goes before {before}", row)


def waits(before: PlainMove, preferred: PlainMove) -> bool:
    """Whether `before` should have waited: of the kind that waits, and nothing in common."""
    if set(people(before)) & set(people(preferred)) or set(slots(before)) & set(slots(preferred)):
        return False
    if before[0] == "SHIFT DOWN":
        return max(before[3], before[6]) > preferred[6]
    return before[0] == "MOVE"


def people(move: PlainMove) -> Iterator[str]:
    """The members of a move."""
    return (member for member in (move[1], move[4]) if member is not None)


def slots(move: PlainMove) -> Iterator[int]:
    """The slots of a move."""
    return (slot for slot in (move[2], move[3], move[5], move[6]) if slot >= 0)
