"""No iteration over sets in the core: string hashes differ per process, and so does their order.

A set is for membership. Whoever walks one writes `sorted(...)`, or makes another set of it, which
shows no order either. Without types at hand the rule goes by what is written:

- a set is a set display or comprehension, a call of `set` or `frozenset`, `|&-^` with a set or
  with `.keys()`, a method that returns a set (`union` and its kin), or a *known name*;
- a known name is annotated as a set, or assigned one, in the same function; or is an attribute,
  or a function called, that the core annotates as a set everywhere it annotates that name;
- walking is `for`, a comprehension, `*`, `yield from`, unpacking, or handing it to a function that
  walks (`list`, `iter`, `min`, `str.join` …), and `.pop()`, which takes whichever comes first.

`any`, `all` and `sum` of a set give the same answer in every order; they are refused all the same,
because what they call along the way may not. Write `sorted` and nobody has to think.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.arch.rules import Module

SET_TYPES: Final = frozenset({"set", "frozenset", "Set", "AbstractSet", "MutableSet", "FrozenSet"})
SET_METHODS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference"})
WALKERS: Final = frozenset(
    {
        "all", "any", "dict", "enumerate", "filter", "iter", "list", "map", "max", "min",
        "reversed", "sum", "tuple", "zip",
        "chain", "deque", "extend", "fromkeys", "join", "reduce",
    }
)  # fmt: skip
ORDER_FREE: Final = frozenset({"sorted", "set", "frozenset"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class SetNames:
    """Names that stand for sets: plain ones of a scope, attributes and functions of the core."""

    variables: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


def is_set_annotation(annotation: ast.expr | None) -> bool:
    """`set[X]`, `frozenset[X]`, `collections.abc.Set[X]`, also with `| None` or in `Final[...]`."""
    match annotation:
        case ast.Constant(value=str(text)):
            return is_set_annotation(ast.parse(text, mode="eval").body)
        case ast.Subscript(value=ast.Name(id="Final" | "ClassVar" | "Annotated"), slice=inner):
            return is_set_annotation(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
        case ast.Subscript(value=value):
            return is_set_annotation(value)
        case ast.BinOp(left=left, right=right):
            return is_set_annotation(left) or is_set_annotation(right)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in SET_TYPES
        case _:
            return False


def is_set(node: ast.expr, names: SetNames) -> bool:
    """Whether the expression is a set, as far as one can see."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names.variables
        case ast.Attribute(attr=name):
            return name in names.attributes
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr="copy")):
            return is_set(value, names)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in SET_METHODS or name in names.functions
        case ast.BinOp(
            left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right
        ):
            return any(is_set(side, names) or is_keys_view(side) for side in (left, right))
        case ast.IfExp(body=body, orelse=orelse):
            return is_set(body, names) or is_set(orelse, names)
        case ast.BoolOp(values=values):
            return any(is_set(value, names) for value in values)
        case ast.NamedExpr(value=value):
            return is_set(value, names)
        case _:
            return False


def is_keys_view(node: ast.expr) -> bool:
    """`x.keys()` keeps the order of its dict, but loses it in `|&-^`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="keys")):
            return True
        case _:
            return False


def names_of_core(modules: Iterable[Module]) -> SetNames:
    """Attributes and functions that are annotated as sets, wherever the core annotates them."""
    attributes: dict[str, bool] = {}
    functions: dict[str, bool] = {}
    for module in modules:
        for name, annotation in attribute_annotations(module):
            attributes[name] = attributes.get(name, True) and is_set_annotation(annotation)
        for node in ast.walk(module.tree):
            if isinstance(node, Function) and node.returns is not None:
                found = attributes if is_property(node) else functions
                found[node.name] = found.get(node.name, True) and is_set_annotation(node.returns)
    return SetNames(
        attributes=frozenset(name for name, always in attributes.items() if always),
        functions=frozenset(name for name, always in functions.items() if always),
    )


def attribute_annotations(module: Module) -> Iterator[tuple[str, ast.expr]]:
    """What is annotated in a class body (`x: int`) or on an instance (`self.x: int`)."""
    for node in ast.walk(module.tree):
        match node:
            case ast.ClassDef(body=body):
                for statement in body:
                    match statement:
                        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                            yield name, annotation
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
                yield name, annotation


def is_property(function: Function) -> bool:
    """Whether the function is read like an attribute."""
    return any(
        isinstance(decorator, ast.Name) and decorator.id in {"property", "cached_property"}
        for decorator in function.decorator_list
    )


def variables_of(body: Iterable[ast.AST], names: SetNames) -> SetNames:
    """`names`, with the parameters and variables below `body` that are annotated or made as sets.

    Twice, since a variable may be made from one that only a later line makes a set.
    """
    body = list(body)
    for _ in range(2):
        found = frozenset(name for root in body for name in set_variables(root, names))
        names = replace(names, variables=names.variables | found)
    return names


def set_variables(root: ast.AST, names: SetNames) -> Iterator[str]:
    """Every plain name that one statement or parameter below `root` makes a set."""
    for node in ast.walk(root):
        match node:
            case ast.arg(arg=name, annotation=annotation) if is_set_annotation(annotation):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if is_set_annotation(annotation):
                    yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_set(value, names):
                yield name
            case ast.NamedExpr(target=ast.Name(id=name), value=value) if is_set(value, names):
                yield name


def outermost_functions(body: Iterable[ast.AST]) -> Iterator[Function]:
    """Functions and methods; a function inside another sees its names and is read with it."""
    for node in body:
        if isinstance(node, Function):
            yield node
        else:
            yield from outermost_functions(ast.iter_child_nodes(node))


def outside_functions(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of the module and of its classes."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from outside_functions(statement.body)
        elif not isinstance(statement, Function):
            yield statement


def walks(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """What `node` itself walks through, with the word for it."""
    match node:
        case ast.For(iter=walked):
            yield walked, "for"
        case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
            for generator in node.generators:
                yield generator.iter, "a comprehension"
        case ast.Starred(value=walked):
            yield walked, "*"
        case ast.YieldFrom(value=walked):
            yield walked, "yield from"
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=walked):
            yield walked, "unpacking"
        case ast.Call(func=ast.Attribute(value=walked, attr="pop"), args=[]):
            yield walked, ".pop()"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments):
            if name in WALKERS:
                for argument in arguments:
                    yield argument, f"{name}()"


def order_free(root: ast.AST) -> set[int]:
    """Nodes whose order is lost again at once: in `sorted(...)`, `set(...)` or `{*a, *b}`."""
    free: set[int] = set()
    for node in ast.walk(root):
        match node:
            case ast.Set(elts=elements):
                free.update(id(element) for element in elements)
            case ast.Call(func=ast.Name(id=name), args=[argument, *_]) if name in ORDER_FREE:
                free.add(id(argument))
    return free


def problems_below(module: Module, root: ast.AST, names: SetNames) -> Iterator[str]:
    """Each walk through a set below `root`."""
    free = order_free(root)
    for node in ast.walk(root):
        if id(node) in free:
            continue
        for walked, word in walks(node):
            if is_set(walked, names):
                message = f"{word} walks through a set in an order that differs per process"
                yield module.problem(walked, f"{message}: use sorted(...)")


def sets_are_not_walked(module: Module, core: SetNames | None = None) -> list[str]:
    """The rule. `core` are the names that all modules declare; by default only this one's."""
    body = module.tree.body
    shared = variables_of(outside_functions(body), core or names_of_core([module]))
    problems = [
        problem
        for root in outside_functions(body)
        for problem in problems_below(module, root, shared)
    ]
    for function in outermost_functions(body):
        problems += problems_below(module, function, variables_of([function], shared))
    return list(dict.fromkeys(problems))
