"""The comments and docstrings of the repository's files."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache

from tests.harness.facts import kept_facts
from tests.harness.sources import text_of, tree_of

#: Fields with lists of statements. Expressions are most of a tree and define nothing.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
#: tokenize takes thirty times as long, and parts of f-strings are tokens in some versions of it.
_TOKEN = re.compile(
    r"""(?P<string>(?:[rR][bBfF]?|[bBfF][rR]?|[uU])?
        (?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<comment>\#[^\n]*)|(?P<name>[^\W\d]\w*)|\d\w*""",
    re.DOTALL | re.VERBOSE,
)
_KINDS = {"string": tokenize.STRING, "comment": tokenize.COMMENT, "name": tokenize.NAME}


@cache
def statements_of(name: str) -> tuple[ast.AST, ...]:
    """Returns a module, its statements, and the handlers and cases in them."""
    found: list[ast.AST] = [tree_of(name)]
    for node in found:
        for field in _BLOCKS:
            found += getattr(node, field, ())
    return tuple(found)


@cache
def tokens_of(name: str) -> tuple[tuple[int, int, str], ...]:
    """Returns type, line and text of each name, string and comment of a module."""
    return tuple(tokens_in(text_of(name)))


def tokens_in(text: str) -> Iterator[tuple[int, int, str]]:
    line, counted = 1, 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is not None:
            line += text.count("\n", counted, match.start())
            counted = match.start()
            yield _KINDS[kind], line, match[0]


@kept_facts
def comments_and_docstrings(name: str) -> list[tuple[int, str]]:
    """Returns line and text of each comment of a module, and of each string that is a statement."""
    tokens = tokens_of(name) if "#" in text_of(name) else ()
    found = [(line, text) for kind, line, text in tokens if kind == tokenize.COMMENT]
    for node in statements_of(name):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.append((node.lineno, node.value.value))
    return found
