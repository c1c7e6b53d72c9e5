"""The files of the repository, without starting git."""

from __future__ import annotations

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
