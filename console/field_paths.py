"""Fields of documents by their paths."""

from __future__ import annotations

from collections.abc import Iterable

from .texts import is_drawn, json_text

_MOST_PATHS, _MOST_PATH_DEPTH = 60, 4
#: Stands for no field at a path.
MISSING = object()


def found_at(document: object, path: str) -> object:
    """The value at a path of names between dots, or MISSING."""
    if not isinstance(document, dict):
        return MISSING
    if path in document:
        return document[path]
    name, _, rest = path.partition(".")
    return found_at(document.get(name), rest) if rest else MISSING


def field_of(document: object, path: str) -> str | None:
    """The value at a path as a text; None without one."""
    found = found_at(document, path)
    if found is MISSING:
        return None
    return found if isinstance(found, str) and is_drawn(found) else json_text(found)


def paths_of(documents: Iterable[object]) -> list[str]:
    """Paths of the fields of objects, without objects themselves, in the order in which they appear."""
    found: dict[str, None] = {}
    for document in documents:
        _collect(document, "", 0, found)
        if len(found) >= _MOST_PATHS:
            break
    return list(found)[:_MOST_PATHS]


def _collect(value: object, prefix: str, depth: int, paths: dict[str, None]) -> None:
    if not isinstance(value, dict) or depth >= _MOST_PATH_DEPTH or len(paths) >= _MOST_PATHS:
        return
    for name, one in value.items():
        path = f"{prefix}{name}"
        if isinstance(one, dict) and one and depth + 1 < _MOST_PATH_DEPTH:
            _collect(one, f"{path}.", depth + 1, paths)
        else:
            paths.setdefault(path)
