"""The comments and docstrings of the repository's files."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache

from tests.harness.sources import ROOT


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a node and the statements below it. Expressions are most of a tree and define nothing."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(child)


def comments_and_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of each comment, and of each string that is a statement."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
