"""Steps that an owner takes in one fragment, drawn at random."""

from __future__ import annotations

from typing import Final, Literal

from hypothesis import strategies as st

from holdfast.core.stores.containers import (
    Change,
    Container,
    HashValue,
    ListValue,
    SetValue,
    number,
)
from holdfast.core.stores.fragment import Fragment
from holdfast.core.stores.record import NEVER

Word = Literal["put", "add", "take", "set", "push", "trim", "expire", "remove", "lock", "clear"]
Step = tuple[Word, bytes, int]

KEYS: Final = st.sampled_from([b"a", b"b", b"c", b"d"])
WORDS: Final[list[Word]] = [
    *("put", "add", "take", "set", "push", "trim", "expire", "remove", "lock"),
]
STEPS: Final = st.lists(
    st.tuples(st.sampled_from([*WORDS, *WORDS, "clear"]), KEYS, st.integers(0, 9)), max_size=25
)


def change(
    fragment: Fragment, key: bytes, kind: type[Container], what: Change, *arguments: bytes
) -> None:
    """An operation on a key that holds this kind or nothing, else the key goes first."""
    value = fragment.records.get(key)
    if value is not None and not isinstance(value, kind):
        fragment.remove(key)
        value = None
    fragment.change(key, kind() if value is None else value, what, arguments)


def perform(fragment: Fragment, step: Step) -> None:
    """One step, whatever the key holds."""
    word, key, amount = step
    text = b"%d" % amount
    value = fragment.records.get(key)
    if word == "put":
        fragment.put(key, text * amount, amount * 1000)
    elif word == "add":
        change(fragment, key, SetValue, Change.ADD, text, text * 2)
    elif word == "set":
        change(fragment, key, HashValue, Change.SET, text, text * amount)
    elif word == "push":
        change(fragment, key, ListValue, Change.PUSH_LEFT, text, text)
    elif word == "lock":
        token = fragment.counter + 1 if amount > 2 else 0
        fragment.lock(key, token, b"session" if token else b"", amount * 10 if token else NEVER)
    elif word == "clear":
        fragment.clear()
    elif value is not None:
        _less(fragment, step, value)


def _less(fragment: Fragment, step: Step, value: bytes | Container) -> None:
    word, key, amount = step
    if word == "remove":
        fragment.remove(key)
    elif word == "take" and isinstance(value, SetValue):
        fragment.change(key, value, Change.REMOVE, [b"%d" % amount])
    elif word == "trim" and isinstance(value, ListValue):
        count = min(amount, len(value))
        fragment.change(key, value, Change.TRIM, [number(count // 2), number(count - count // 2)])
    elif word == "expire" and isinstance(value, Container):
        fragment.change(key, value, Change.EXPIRE, [number(amount)])


def stranger(fragment: Fragment) -> Fragment:
    """Fill it with a history that was given up: its versions are greater than any to come."""
    fragment.reign(6)
    for step in ("put", b"a", 3), ("add", b"b", 1), ("push", b"c", 2), ("lock", b"a", 5):
        perform(fragment, step)
    fragment.put(b"leftover", b"x")
    fragment.lock(b"leftover", 99, b"session", 5)
    fragment.take()
    return fragment
