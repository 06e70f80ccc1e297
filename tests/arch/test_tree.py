"""The house rules, kept by the whole tree."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.arch import rules
from tests.arch.rules import Module
from tests.arch.sets import names_of_core, sets_are_not_walked

ROOT: Final = Path(__file__).parents[2]
CORE: Final = "node/src/holdfast/core/"
SOURCES: Final = ("node/src/", "operator/src/", "pipeline/src/")

PROTOCOL_MODULES: Final = (
    "assignment",
    "election",
    "execution",
    "forming",
    "front/errands",
    "front/forwarding",
    "front/guests",
    "front/keyspace",
    "front/transactions",
    "front/administration",
    "front/bulk",
    "front/copies",
    "stores/snapshot",
    "stores/staging",
    "joining",
    "leadership",
    "locking",
    "mastership",
    "membership",
    "node",
    "outbox",
    "participation",
    "planner",
    "publication",
    "quorums",
    "rebalancing",
    "recovery",
    "repair",
    "requests",
    "schedule",
    "service",
    "settlement",
    "states",
    "table",
    "transition",
    "versioning",
)
"""Modules of the core that are a protocol: each opens with its theory."""


@cache
def files() -> tuple[str, ...]:
    """Files that are in the repository or about to be; in an unpacked archive, every file."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.split("\0")
    else:
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        names = [path.as_posix() for path in found if not path.parts[0].startswith(".")]
    return tuple(sorted(name for name in names if name and (ROOT / name).is_file()))


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """Every Python file below the folders, parsed."""
    return tuple(
        Module.of((ROOT / name).read_text(encoding="utf-8"), name)
        for name in files()
        if name.endswith(".py") and name.startswith(folders)
    )


def assert_none(problems: Iterable[str]) -> None:
    """All problems at once, each on its line."""
    lines = list(problems)
    assert not lines, "\n".join(["the tree breaks a house rule:", *lines])


@pytest.mark.parametrize(
    "rule", [rules.file_is_short, rules.functions_are_short, rules.module_says_why]
)
def test_every_module(rule: Callable[[Module], list[str]]) -> None:
    assert_none(problem for module in modules(*SOURCES, "tests/") for problem in rule(module))


def test_source_is_finished() -> None:
    assert_none(
        problem for module in modules(*SOURCES) for problem in rules.work_is_finished(module)
    )


@pytest.mark.parametrize(
    "rule",
    [
        rules.core_imports_are_allowed,
        rules.core_randomness_is_an_argument,
        rules.core_calls_are_allowed,
        rules.core_is_not_async,
    ],
)
def test_core_is_pure(rule: Callable[[Module], list[str]]) -> None:
    assert_none(problem for module in modules(CORE) for problem in rule(module))


def test_no_cancellation_is_lost() -> None:
    assert_none(
        problem for module in modules(*SOURCES) for problem in rules.waits_can_be_cancelled(module)
    )


def test_core_walks_no_sets() -> None:
    names = names_of_core(modules(CORE))
    assert_none(
        problem for module in modules(CORE) for problem in sets_are_not_walked(module, names)
    )


@pytest.mark.parametrize("name", PROTOCOL_MODULES)
def test_protocol_has_its_theory(name: str) -> None:
    found = [module for module in modules(CORE) if module.path in places_of(name)]
    assert found, f"no module {CORE}{name}: it moved, or the list is wrong"
    assert_none(problem for module in found for problem in rules.protocol_has_theory(module))


def places_of(name: str) -> tuple[str, str]:
    """Where a protocol's theory stands: its module, or the front of its package."""
    return f"{CORE}{name}.py", f"{CORE}{name}/__init__.py"


def test_no_test_sleeps() -> None:
    assert_none(
        problem for module in modules("tests/") for problem in rules.test_does_not_sleep(module)
    )


def test_no_package_is_called_operator() -> None:
    assert_none(problem for name in files() for problem in rules.operator_is_no_package(name))


def test_no_file_names_a_machine() -> None:
    problems: list[str] = []
    for name in files():
        data = (ROOT / name).read_bytes()
        if b"\0" not in data:
            problems += rules.names_no_machine(name, data.decode(errors="replace"))
    assert_none(problems)


def test_every_folder_of_source_is_a_package() -> None:
    """Without `__init__.py` a folder has no docstring, and the tools overlook it."""
    folders = {str(Path(module.path).parent) for module in modules(*SOURCES)}
    packages = {folder for folder in folders if f"{folder}/__init__.py" in files()}
    assert_none(f"{folder}: no __init__.py" for folder in sorted(folders - packages))


def test_every_make_target_is_explained() -> None:
    assert_none(rules.targets_are_explained((ROOT / "Makefile").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("distribution", "requirements", "ours"),
    [
        ("node", "runtime", []),
        ("operator", "operator", ["holdfast"]),
        ("pipeline", "spark", ["holdfast"]),
    ],
)
def test_requirements_are_those_of_the_distribution(
    distribution: str, requirements: str, ours: list[str]
) -> None:
    """Two places name them; only one gets pins and hashes."""
    text = (ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8")
    lines = (ROOT / f"requirements/{requirements}.in").read_text(encoding="utf-8").splitlines()
    wanted = ours + [line for line in lines if not line.startswith(("#", "-"))]
    assert wanted == tomllib.loads(text)["project"]["dependencies"]


def test_every_pin_has_its_hashes() -> None:
    problems: list[str] = []
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for line, after in zip(lines, [*lines[1:], ""], strict=True):
            if "==" in line and "--hash=sha256:" not in after:
                problems.append(f"{path.name}: {line}: no hash")
    assert_none(problems)
