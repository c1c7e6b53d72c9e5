"""A file is one noun: no banner and no paragraph of comment between definitions, one logger, constants before definitions.

A banner or a paragraph introduces a second noun: divide the file there. The files of the product have no exception.
"""

from __future__ import annotations

import ast
import re

from tests.harness.facts import kept_facts
from tests.harness.sources import files, text_of, tree_of

#: Folders whose files are no part of the product.
OUTSIDE = ("tests", "compat_tests", "benchmarks", "docs", "examples", "spark_examples")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BANNER = re.compile(r"# ?-{3,}")
_COMMENT = re.compile(r"# ")


def introductions(text: str, tree: ast.Module) -> list[int]:
    """Lines between definitions in which a banner begins, or a paragraph of comment that belongs to no definition."""
    lines = text.splitlines()
    defined = [node.lineno for node in tree.body if isinstance(node, _DEFINITIONS)]
    if not defined:
        return []
    found = []
    for at in range(min(defined), len(lines)):
        begins = _COMMENT.match(lines[at]) and not lines[at - 1].strip()
        end = next((below for below in range(at, len(lines)) if not lines[below].startswith("#")), len(lines))
        stands_alone = end == len(lines) or not lines[end].strip()
        if begins and (_BANNER.match(lines[at]) or (stands_alone and end - at > 1)):
            found.append(at + 1)
    return found


def loggers(tree: ast.Module) -> list[int]:
    assigned = [(node.lineno, node.value) for node in tree.body if isinstance(node, ast.Assign)]
    made = [(line, value.func) for line, value in assigned if isinstance(value, ast.Call)]
    return [line for line, function in made if ast.unparse(function) == "logging.getLogger"]


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def constants_between(tree: ast.Module) -> list[int]:
    """Lines of constants after the first definition, without those made of a definition above."""
    found, defined = [], set()
    for node in tree.body:
        if isinstance(node, _DEFINITIONS):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and defined:
            if node.value is not None and _names(node.value) & defined:
                defined |= _names(node)
            else:
                found.append(node.lineno)
    return found


@kept_facts
def signs_of_a_second_noun(name: str) -> list[int]:
    """Lines of banners, paragraphs, second loggers, and constants between definitions."""
    tree = tree_of(name)
    return sorted([*introductions(text_of(name), tree), *loggers(tree)[1:], *constants_between(tree)])


def test_file_of_the_product_is_one_noun() -> None:
    sources = [name for name in files("*.py") if name.split("/")[0] not in OUTSIDE]
    assert len(sources) > 1_000, "the files of the product were not found"
    assert [f"{name}:{line}" for name in sources for line in signs_of_a_second_noun(name)] == []


BAD = '''"""Two nouns."""

import logging

log = logging.getLogger("a")
second_log = logging.getLogger("b")


def first():
    pass


# ---- the second noun

LIMIT = 3


# A paragraph that introduces
# what follows.


def second():
    return LIMIT


SECOND = second()
'''


def test_signs_of_a_second_noun_are_found() -> None:
    lines, tree = BAD.splitlines(), ast.parse(BAD)
    numbers = (introductions(BAD, tree), loggers(tree), constants_between(tree))
    found = [[lines[line - 1] for line in found] for found in numbers]
    assert found == [
        ["# ---- the second noun", "# A paragraph that introduces"],
        ['log = logging.getLogger("a")', 'second_log = logging.getLogger("b")'],
        ["LIMIT = 3"],
    ]
