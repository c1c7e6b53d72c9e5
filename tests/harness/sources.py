"""The files of the repository, without starting git, and the syntax trees of its modules."""

from __future__ import annotations

import ast
import gc
import os
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_IGNORED = (ROOT / ".gitignore").read_text(encoding="utf-8").split()


@cache
def _files() -> tuple[str, ...]:
    found: list[str] = []
    for folder, folders, files in os.walk(ROOT):
        below = Path(folder).relative_to(ROOT)
        folders[:] = [name for name in folders if not _is_ignored(below / name, is_folder=True)]
        found += (str(below / name) for name in files if not _is_ignored(below / name, is_folder=False))
    return tuple(sorted(found))


def _is_ignored(path: Path, *, is_folder: bool) -> bool:
    """Returns whether a pattern of .gitignore fits: the whole path if it has a slash inside, and else the name."""
    return path.name == ".git" or any(
        fnmatch(*((str(path), pattern.strip("/")) if "/" in pattern.rstrip("/") else (path.name, pattern.rstrip("/"))))
        for pattern in _IGNORED
        if is_folder or not pattern.endswith("/")
    )


def files(*patterns: str) -> list[str]:
    """Returns the paths, relative to the root, that git tracks or would track. In patterns, `*` fits slashes, too."""
    return [name for name in _files() if any(fnmatch(name, pattern) for pattern in patterns)]


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def tree_of(name: str) -> ast.Module:
    """Returns the syntax tree of a module, which is parsed once in a process and not to be changed.

    All trees have two million nodes. The garbage collector would scan them ten times while they are made, and again in
    each later test.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text_of(name))
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@cache
def nodes_of(name: str) -> tuple[ast.AST, ...]:
    """Returns the nodes of the syntax tree of a module, parents first."""
    found: list[ast.AST] = [tree_of(name)]
    for node in found:  # ast.walk takes three times as long
        for field in node._fields:
            below = getattr(node, field, None)
            if isinstance(below, list):
                found += [one for one in below if isinstance(one, ast.AST)]
            elif isinstance(below, ast.AST):
                found.append(below)
    return tuple(found)
