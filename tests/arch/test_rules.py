"""Each house rule refuses a bad sample and lets the good one next to it pass.

A rule that can't fail keeps nothing. The samples are as small as the fault they show.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.arch import rules
from tests.arch.rules import Module
from tests.arch.sets import names_of_core, sets_are_not_walked

Rule = Callable[[Module], list[str]]

WALKED = [
    "for x in {1, 2}: pass",
    "for x in set(y): pass",
    "[x for x in frozenset(y)]",
    "{x: 1 for x in {1, 2}}",
    "for x in a.keys() | b: pass",
    "for x in {1} - b: pass",
    "for x in a.difference(b): pass",
    "list({1, 2})",
    "min({1, 2})",
    "any(f(x) for x in {1, 2})",
    "len([x for x in {1, 2}])",
    "','.join({'a'})",
    "(*{1, 2},)",
    "a, b = {1, 2}",
    "next(iter({1, 2}))",
    "{1, 2}.pop()",
    "list({1, 2}.copy())",
    "for x in (s := {1, 2}): pass",
    "for x in ({1} if y else {2}): pass",
    "for x in (y or {1}): pass",
    "s = {1, 2}\nfor x in s: pass",
    "s = set()\nt = s | u\nfor x in t: pass",
    "def f(s: set[int]) -> None:\n    for x in s: pass",
    "def f(s: 'frozenset[int]') -> None:\n    tuple(s)",
    "def f(s: frozenset[int] | None) -> None:\n    sum(s or ())",
    "def f(s: collections.abc.Set[int]) -> None:\n    for x in s: pass",
    "def f() -> None:\n    s: set[int] = g()\n    for x in s: pass",
    "def f(y: int) -> None:\n    if (s := {y}):\n        for x in s: pass",
    "def f(s: set[int]) -> None:\n    def g() -> None:\n        for x in s: pass",
    "def f(s: set[int]) -> Iterator[int]:\n    yield from s",
    "S: Final[frozenset[int]] = g()\ndef f() -> None:\n    for x in S: pass",
    "class A:\n    s: set[int]\n    def f(self) -> None:\n        for x in self.s: pass",
    "class A:\n    def __init__(self) -> None:\n        self.s: set[int] = g()\n"
    "    def f(self) -> None:\n        list(self.s)",
    "class A:\n    @property\n    def s(self) -> set[int]: ...\nlist(a.s)",
    "def s() -> set[int]: ...\nfor x in s(): pass",
    "class A:\n    for x in {1}: pass",
]

NOT_WALKED = [
    "for x in sorted({1, 2}): pass",
    "sorted(f(x) for x in {1, 2})",
    "frozenset(x for x in {1, 2})",
    "{x for x in {1, 2}}",
    "{*{1, 2}, 3}",
    "len({1, 2})",
    "x in {1, 2}",
    "for x in [1, 2]: pass",
    "for x in a.keys(): pass",
    "for x in a - b: pass",
    "def f(s: set[int]) -> bool:\n    return 1 in s and s <= {2}",
    "def f(s: dict[int, set[int]]) -> None:\n    for x in s: pass",
    "def f(s: set[int]) -> None: ...\ndef g(s: list[int]) -> None:\n    for x in s: pass",
    "class A:\n    s: set[int]\nclass B:\n    s: list[int]\ndef f(b: B) -> None:\n    list(b.s)",
    "a.pop()\nb.pop(1)",
]


@pytest.mark.parametrize("sample", WALKED)
def test_walking_a_set_is_found(sample: str) -> None:
    assert sets_are_not_walked(Module.of(sample))


@pytest.mark.parametrize("sample", NOT_WALKED)
def test_membership_and_sorted_sets_pass(sample: str) -> None:
    assert not sets_are_not_walked(Module.of(sample))


def test_a_set_declared_in_another_module_is_found() -> None:
    declaring = Module.of("class A:\n    voters: frozenset[int]")
    walking = Module.of("def f(a: A) -> None:\n    for x in a.voters: pass")
    assert not sets_are_not_walked(walking)
    assert sets_are_not_walked(walking, names_of_core([declaring, walking]))


CORE_SAMPLES: list[tuple[Rule, str]] = [
    (rules.core_imports_are_allowed, "import time"),
    (rules.core_imports_are_allowed, "import os.path"),
    (rules.core_imports_are_allowed, "def f() -> None:\n    import asyncio"),
    (rules.core_imports_are_allowed, "from socket import socket"),
    (rules.core_imports_are_allowed, "from datetime import datetime"),
    (rules.core_imports_are_allowed, "from uuid import uuid4"),
    (rules.core_imports_are_allowed, "import secrets"),
    (rules.core_imports_are_allowed, "import msgspec"),
    (rules.core_imports_are_allowed, "from holdfast.wire import codec"),
    (rules.core_imports_are_allowed, "from holdfast.core_tools import x"),
    (rules.core_imports_are_allowed, "from .planner import plan"),
    (rules.core_randomness_is_an_argument, "from random import choice"),
    (rules.core_randomness_is_an_argument, "import random\nrandom.shuffle(x)"),
    (rules.core_randomness_is_an_argument, "import random\nf = random.random"),
    (rules.core_randomness_is_an_argument, "import random\nrng = random.Random(1)"),
    (rules.core_calls_are_allowed, "partition = hash(key) % 271"),
    (rules.core_calls_are_allowed, "open('x')"),
    (rules.core_calls_are_allowed, "print('x')"),
    (rules.core_is_not_async, "async def f() -> None: ..."),
]


@pytest.mark.parametrize(("rule", "sample"), CORE_SAMPLES)
def test_impurity_in_the_core_is_found(rule: Rule, sample: str) -> None:
    assert rule(Module.of(sample))


def test_a_pure_module_passes_every_rule_of_the_core() -> None:
    module = Module.of(
        "import random\n"
        "from collections.abc import Sequence\n"
        "from random import Random\n"
        "import mmh3\n"
        "from holdfast.core.planner import plan\n"
        "from holdfast.errors import PlanError\n"
        "def pick(members: Sequence[str], rng: random.Random) -> str:\n"
        "    return rng.choice(members)\n"
        "class Key:\n"
        "    def __hash__(self) -> int: return 1\n"
    )
    for rule in {rule: None for rule, _ in CORE_SAMPLES}:
        assert rule(module) == []


def test_a_long_file_is_found() -> None:
    assert rules.file_is_short(Module.of("x = 1\n" * 601))
    assert not rules.file_is_short(Module.of("x = 1\n" * 600))


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_long_function_is_found(keyword: str) -> None:
    assert rules.functions_are_short(Module.of(f"{keyword} f() -> None:\n" + "    x = 1\n" * 70))
    assert not rules.functions_are_short(
        Module.of(f"{keyword} f() -> None:\n" + "    x = 1\n" * 69)
    )


def test_a_module_without_docstring_is_found() -> None:
    assert rules.module_says_why(Module.of("x = 1"))
    assert not rules.module_says_why(Module.of('"""Why."""\nx = 1'))


@pytest.mark.parametrize("word", ["TODO", "FIXME", "XXX", "NotImplementedError"])
def test_unfinished_work_is_found(word: str) -> None:
    assert rules.work_is_finished(Module.of(f"x = 1  # {word}: later"))
    assert not rules.work_is_finished(Module.of(f"x{word}y = 1"))


THEORY = "What it is.\nRules\nStates\nWhat can go wrong\nseed 002" + "\nline" * 10


def test_a_protocol_with_its_theory_passes() -> None:
    assert rules.protocol_has_theory(Module.of(f'"""{THEORY}"""')) == []


@pytest.mark.parametrize("part", ["Rules", "States", "What can go wrong", "seed 002", "\nline"])
def test_a_protocol_without_part_of_its_theory_is_found(part: str) -> None:
    theory = THEORY.replace(part, "", 1)
    assert len(rules.protocol_has_theory(Module.of(f'"""{theory}"""'))) == 1


def test_a_protocol_without_docstring_lacks_everything() -> None:
    assert len(rules.protocol_has_theory(Module.of("x = 1"))) == 5


def test_a_wait_that_loses_a_cancellation_is_found() -> None:
    sample = "import asyncio\nasync def f(e: asyncio.Event) -> None:\n    await {}(e.wait(), 1)"
    assert rules.waits_can_be_cancelled(Module.of(sample.format("asyncio.wait_for")))
    assert not rules.waits_can_be_cancelled(Module.of(sample.format("other.wait_for")))


@pytest.mark.parametrize(
    "sample",
    [
        "import time\ntime.sleep(1)",
        "import asyncio\nasync def f() -> None:\n    await asyncio.sleep(0)",
        "from time import sleep",
    ],
)
def test_a_sleeping_test_is_found(sample: str) -> None:
    assert rules.test_does_not_sleep(Module.of(sample))


@pytest.mark.parametrize(
    "parts",
    [
        ("see ", "/", "work/main"),
        ('cd "', "/", "root/x"),
        ("--find", "-links wheels"),
        ("--extra-index", "-url x"),
        ("https://", "pypi", ".org/simple"),
    ],
)
def test_a_place_of_one_machine_is_found(parts: tuple[str, ...]) -> None:
    """In parts, since this file is searched as well."""
    assert rules.names_no_machine("README.md", "".join(parts))


def test_places_inside_the_project_pass() -> None:
    assert not rules.names_no_machine("README.md", "./work/x docs/root/y ${HOME}/work /tmp")


def test_a_package_called_operator_is_found() -> None:
    assert rules.operator_is_no_package("tests/operator/__init__.py")
    assert not rules.operator_is_no_package("operator/src/holdfast_operator/__init__.py")


@pytest.mark.parametrize(
    "makefile",
    [
        ".PHONY: a b\na: ## x\nb:\n",
        ".PHONY: a\na: ## x\nb: ## y\n",
        ".PHONY: a b\na: ## x\n",
    ],
)
def test_a_hidden_target_is_found(makefile: str) -> None:
    assert len(rules.targets_are_explained(makefile)) == 1
