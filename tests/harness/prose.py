"""The comments and docstrings of the repository's files."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache

from tests.harness.sources import text_of, tree_of


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a node and the statements below it. Expressions are most of a tree and define nothing."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(child)


@cache
def tokens_of(name: str) -> tuple[tuple[int, int, str], ...]:
    """Returns type, line and text of each name, string and comment of a module."""
    return tuple(
        (token.type, token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(text_of(name)).readline)
        if token.type in (tokenize.NAME, tokenize.STRING, tokenize.COMMENT)
    )


def comments_and_docstrings(name: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of each comment of a module, and of each string that is a statement."""
    for kind, line, text in tokens_of(name) if "#" in text_of(name) else ():
        if kind == tokenize.COMMENT:
            yield line, text
    for node in statements(tree_of(name)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
