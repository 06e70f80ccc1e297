"""The house rules that no tool keeps, each a function from one module's source to its problems.

They are dumb on purpose: they read the syntax tree, guess nothing about types beyond what is
written in the annotations, and prefer a false alarm that is easy to silence (write `sorted(...)`)
to a silent miss. A rule takes a `Module` and returns one line for each problem, so that it can be
shown a bad sample as well as the tree (`test_rules.py`).

The rule about sets is long enough for a module of its own: `sets.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 70
THEORY_LINES_MIN: Final = 15

CORE_STDLIB: Final = frozenset(
    {
        "__future__",
        "abc",
        "array",
        "binascii",
        "bisect",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "math",
        "operator",
        "random",
        "re",
        "string",
        "struct",
        "textwrap",
        "types",
        "typing",
        "zlib",
    }
)
"""What the core may import of the standard library: nothing that waits, looks or remembers."""

CORE_THIRD_PARTY: Final = frozenset({"mmh3"})
"""A pure function in C, for the stamp and the Merkle trees."""

CORE_BELOW: Final = ("holdfast.core", "holdfast.errors", "holdfast.ids")

CORE_BUILTINS_BANNED: Final = {
    "__import__": "imports are written at the top",
    "breakpoint": "that stops a member",
    "eval": "there is always another way",
    "exec": "there is always another way",
    "hash": "it differs between processes; use mmh3 or a key",
    "id": "it differs between runs",
    "input": "the core has no terminal",
    "open": "the core has no disk: return an effect",
    "print": "the core has no terminal: return an effect",
    "vars": "name the fields",
}

UNFINISHED: Final = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")

MACHINE_PLACES: Final = re.compile(
    r"(?<![\w./$}])/(?:work|root|opt/wheels|tmp/bash)\b"
    r"|\b(?:pypi\.org|pythonhosted\.org|deb\.debian\.org)\b"
    r"|--(?:extra-|)index-(?:url)\b|--find-(?:links)\b"
)
"""Directories of one machine, and hosts or options that say where packages come from.

Written so that it does not find itself.
"""


@dataclass(frozen=True, slots=True)
class Module:
    """One file of source, parsed once for all rules."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def of(cls, text: str, path: str = "sample.py") -> Module:
        """Parse `text`; `path` is what the problems are reported under."""
        return cls(path, text, ast.parse(text))

    def problem(self, node: ast.expr | ast.stmt | ast.excepthandler, message: str) -> str:
        """One line that an editor can jump to."""
        return f"{self.path}:{node.lineno}: {message}"


def dotted(node: ast.expr) -> str:
    """`a.b.c` as written, or the empty string for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        below = dotted(node.value)
        return f"{below}.{node.attr}" if below else ""
    return ""


def imports(module: Module) -> Iterator[tuple[ast.stmt, str, str]]:
    """Every import as (statement, module, name); the name is empty for `import module`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            for alias in node.names:
                yield node, source, alias.name


# --- sizes and words ---------------------------------------------------------------------------


def file_is_short(module: Module) -> list[str]:
    """A file that doesn't fit one sitting has two subjects."""
    lines = len(module.text.splitlines())
    if lines <= FILE_LINES_MAX:
        return []
    return [f"{module.path}: {lines} lines, more than {FILE_LINES_MAX}: split it by subject"]


def functions_are_short(module: Module) -> list[str]:
    """A function that doesn't fit one screen hides a step that wants a name."""
    problems = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            message = (
                f"{node.name}() has {lines} lines, more than {FUNCTION_LINES_MAX}: name its steps"
            )
            problems.append(module.problem(node, message))
    return problems


def module_says_why(module: Module) -> list[str]:
    """The docstring is the only place that can say why the module exists."""
    if ast.get_docstring(module.tree):
        return []
    return [f"{module.path}:1: no module docstring: say why it exists"]


def work_is_finished(module: Module) -> list[str]:
    """What is not done yet belongs in the plan of the work, not in the source."""
    return [
        f"{module.path}:{number}: {found.group()}: finish it or take it out"
        for number, line in enumerate(module.text.splitlines(), start=1)
        if (found := UNFINISHED.search(line))
    ]


def protocol_has_theory(module: Module) -> list[str]:
    """Whoever changes a protocol must meet its rules first, and find where they come from."""
    theory = ast.get_docstring(module.tree) or ""
    lines = len(theory.splitlines())
    wanted = {
        f"at least {THEORY_LINES_MIN} lines (it has {lines})": lines >= THEORY_LINES_MIN,
        'the word "Rules"': re.search(r"\bRules\b", theory),
        'the word "States" or "State"': re.search(r"\bStates?\b", theory),
        '"What can go wrong"': "What can go wrong" in theory,
        'its source ("seed 00…" or "design/…")': re.search(r"seed 00|design/", theory),
    }
    return [
        f"{module.path}:1: the opening docstring of a protocol needs {what}"
        for what, there in wanted.items()
        if not there
    ]


# --- the purity of the core --------------------------------------------------------------------


def core_imports_are_allowed(module: Module) -> list[str]:
    """The core imports what is on the list. All else is time, chance, I/O or another layer."""
    problems = []
    for node, source, _ in imports(module):
        if source.startswith("."):
            problems.append(module.problem(node, f"relative import {source}: write it in full"))
        elif source.partition(".")[0] == "holdfast":
            if not any(source == below or source.startswith(f"{below}.") for below in CORE_BELOW):
                problems.append(module.problem(node, f"{source} is above the core"))
        elif source.partition(".")[0] not in CORE_STDLIB | CORE_THIRD_PARTY:
            problems.append(module.problem(node, f"{source} is not on the core's allow-list"))
    return problems


def core_randomness_is_an_argument(module: Module) -> list[str]:
    """`random` is there to say `rng: random.Random`: no functions of it, no generator made here."""
    problems = [
        module.problem(node, f"random.{name}: take rng: random.Random as an argument")
        for node, source, name in imports(module)
        if source == "random" and name not in {"", "Random"}
    ]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if name.startswith("random.") and name.split(".")[1] != "Random":
                problems.append(module.problem(node, f"{name}: take rng: random.Random instead"))
        if isinstance(node, ast.Call) and dotted(node.func) in {"Random", "random.Random"}:
            problems.append(
                module.problem(node, "a generator is made by the caller, with its seed")
            )
    return problems


def core_calls_are_allowed(module: Module) -> list[str]:
    """Builtins that differ between runs, or touch the world."""
    problems = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            reason = CORE_BUILTINS_BANNED.get(node.func.id)
            if reason:
                problems.append(module.problem(node, f"{node.func.id}(): {reason}"))
    return problems


def core_is_not_async(module: Module) -> list[str]:
    """A coroutine waits for something; the core returns an effect and takes an event."""
    waits = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    return [
        module.problem(node, "the core waits for nothing: return an effect, take an event")
        for node in ast.walk(module.tree)
        if isinstance(node, waits)
    ]


# --- shells ------------------------------------------------------------------------------------


def waits_can_be_cancelled(module: Module) -> list[str]:
    """Before 3.12 `wait_for` forgets that it was cancelled if what it waits for just came."""
    return [
        module.problem(node, "asyncio.wait_for: a cancellation may be lost; take asyncio.timeout")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and dotted(node.func) == "asyncio.wait_for"
    ]


# --- tests -------------------------------------------------------------------------------------


def test_does_not_sleep(module: Module) -> list[str]:
    """A sleep is a race with a slow machine: wait for the condition, or use virtual time."""
    problems = [
        module.problem(node, f"from {source} import sleep: wait for the condition instead")
        for node, source, name in imports(module)
        if name == "sleep"
    ]
    problems += [
        module.problem(node, f"{dotted(node.func)}(): wait for the condition instead")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and dotted(node.func).endswith(".sleep")
    ]
    return problems


# --- any file ----------------------------------------------------------------------------------


def names_no_machine(path: str, text: str) -> list[str]:
    """A clone must work anywhere: no directory of one machine, no source of packages."""
    return [
        f"{path}:{number}: {found.group()} belongs to one machine"
        for number, line in enumerate(text.splitlines(), start=1)
        if (found := MACHINE_PLACES.search(line))
    ]


def operator_is_no_package(path: str) -> list[str]:
    """A package called `operator` on the path would shadow the standard library's module."""
    *folders, name = path.split("/")
    if name == "__init__.py" and folders and folders[-1] == "operator":
        return [f"{path}: would shadow the standard library's operator: take it away"]
    return []


def targets_are_explained(makefile: str) -> list[str]:
    """`make help` is made from the `##` comments, so a target without one is hidden."""
    explained = set(re.findall(r"^([a-z0-9-]+):.*## \S", makefile, flags=re.MULTILINE))
    targets = set(re.findall(r"^([a-z0-9-]+):(?!=)", makefile, flags=re.MULTILINE))
    phony = re.search(r"^\.PHONY:(.*)$", makefile, flags=re.MULTILINE)
    declared = set(phony.group(1).split()) if phony else set()
    return [
        *(f"Makefile: {name} has no ## comment" for name in sorted(targets - explained)),
        *(f"Makefile: {name} is not in .PHONY" for name in sorted(targets - declared)),
        *(f"Makefile: {name} is in .PHONY alone" for name in sorted(declared - targets)),
    ]
