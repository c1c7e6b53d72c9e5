"""`one`, `found` and `made` hide what a thing is: parameters and long scopes have nouns.

In a scope of a few lines such a name is short, and what it is stands beside it.
"""

from __future__ import annotations

import ast

from tests.harness.facts import kept_facts
from tests.harness.sources import files, tree_of

NAMES = frozenset({"one", "found", "made"})
#: Lines from the first use of a name to the last, in one function: a screen has some more.
LONG_SCOPE = 25
#: Folders whose files are no part of the product.
OUTSIDE = ("tests", "compat_tests", "benchmarks", "docs", "examples", "spark_examples")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def hiding_parameters(function: Function) -> list[str]:
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [parameter.arg for parameter in parameters if parameter.arg in NAMES]


def hiding_in_long_scopes(function: Function) -> list[str]:
    lines: dict[str, list[int]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in NAMES:
            lines.setdefault(node.id, []).append(node.lineno)
    return [name for name, uses in lines.items() if max(uses) - min(uses) >= LONG_SCOPE]


@kept_facts
def hiding_names(file: str) -> list[str]:
    functions = functions_of(tree_of(file))
    names = [(function, name) for function in functions for name in hiding_parameters(function)]
    names += [(function, name) for function in functions for name in hiding_in_long_scopes(function)]
    return [f"{file}:{function.lineno} {function.name}: {name}" for function, name in names]


def test_parameters_and_long_scopes_are_found() -> None:
    long = "def second():\n    made = 1\n" + "    pass\n" * LONG_SCOPE + "    return made\n"
    short = "def third():\n    made = 1\n    return made\n"
    functions = functions_of(ast.parse("def first(one, *, found): ...\n" + long + short))
    assert [hiding_parameters(function) for function in functions] == [["one", "found"], [], []]
    assert [hiding_in_long_scopes(function) for function in functions] == [[], ["made"], []]


def test_parameters_and_long_scopes_have_nouns() -> None:
    product = [file for file in files("*.py") if file.split("/")[0] not in OUTSIDE]
    assert len(product) > 1_000, "the files of the product were not found"
    assert [name for file in product for name in hiding_names(file)] == []
