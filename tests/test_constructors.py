"""No constructor of the product has more than seven parameters: what every part of a node needs is one value, `Node`.

Constructors are the methods `__init__`. The fields of a dataclass are no parameters of this kind, as it is plain data; so
one with more than seven fields holds no part of a node.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.harness.facts import kept_facts
from tests.harness.sources import files, tree_of

MOST = 7
NODE = "server/runtime/node.py"
_OUTSIDE = ("tests/", "compat_tests/", "benchmarks/", "docs/", "examples/", "spark_examples/")


def classes(name: str) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree_of(name)) if isinstance(node, ast.ClassDef))


def constructor_parameters(definition: ast.ClassDef) -> list[str]:
    """Names of the parameters of a class's own `__init__`, without `self`."""
    for node in definition.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            arguments = node.args
            return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)][1:]
    return []


def fields(definition: ast.ClassDef) -> dict[str, set[str]]:
    """Fields of a dataclass or a NamedTuple, and the names in their types."""
    marks = {node.id for part in (*definition.decorator_list, *definition.bases) for node in _names(part)}
    if not marks & {"dataclass", "NamedTuple"}:
        return {}
    return {
        node.target.id: {name.id for name in _names(node.annotation)}
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Name))


def parts_of_a_node() -> set[str]:
    """Names of the classes of a node's parts."""
    (node,) = (definition for definition in classes(NODE) if definition.name == "Node")
    return {
        one.annotation.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.annotation, ast.Name)
    }


@kept_facts
def large_constructors(name: str) -> dict[str, int]:
    """Parameters of the constructors of a module with more than the most."""
    return {
        f"{name}:{definition.lineno} {definition.name}": len(constructor_parameters(definition))
        for definition in classes(name)
        if len(constructor_parameters(definition)) > MOST
    }


@kept_facts
def large_dataclasses(name: str) -> dict[str, set[str]]:
    """The names in the types of the fields of a module's dataclasses with more fields than the most."""
    return {
        f"{name}:{definition.lineno} {definition.name}": set().union(*fields(definition).values())
        for definition in classes(name)
        if len(fields(definition)) > MOST
    }


def product() -> list[str]:
    return [name for name in files("*.py") if not name.startswith(_OUTSIDE)]


def test_no_constructor_has_more_than_seven_parameters() -> None:
    assert [large_constructors(name) for name in product() if large_constructors(name)] == []


def test_large_dataclasses_hold_no_part_of_a_node() -> None:
    parts = parts_of_a_node()
    assert {"Clock", "ThreadPools", "MetadataCache", "BrokerConfig"} <= parts
    holders = [holder for name in product() for holder, types in large_dataclasses(name).items() if types & parts]
    assert [holder.rpartition(" ")[2] for holder in holders] == ["Node"], holders


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("class A:\n def __init__(self, a, b, *, c=1): ...", 3),
        ("class A:\n def __init__(self, a, /, b, *more, **rest): ...", 2),
        ("class A:\n def other(self, a, b): ...", 0),
    ],
)
def test_parameters_are_counted_by_all_their_kinds(text: str, count: int) -> None:
    (definition,) = ast.parse(text).body
    assert isinstance(definition, ast.ClassDef)
    assert len(constructor_parameters(definition)) == count
