"""A JSON document as a tree, bytes as a hex dump, and the fields of documents by their paths. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from .formats import is_drawn, json_text
from .parts import Node

#: Limits of a tree: its nodes, and the characters of one text.
MOST_NODES, _MOST_TEXT, _MOST_DEPTH = 2000, 10_000, 60
_MOST_PATHS, _MOST_PATH_DEPTH = 60, 4
_HEX_COLUMNS, MOST_HEX_BYTES = 16, 16_384


def tree(value: object, name: str = "") -> Node:
    """A document with more than MOST_NODES values is cut; its text is whole."""
    return _node(name, value, 0, [MOST_NODES])


def _node(name: str, value: object, depth: int, left: list[int]) -> Node:
    left[0] -= 1
    if isinstance(value, dict | list):
        pairs: Iterable[tuple[str, object]] = (
            ((str(key), one) for key, one in value.items())
            if isinstance(value, dict)
            else ((str(index), one) for index, one in enumerate(value))
        )
        children = []
        if depth < _MOST_DEPTH:
            for key, one in pairs:
                if left[0] <= 0:
                    children.append(Node("…", "cut: the text below is whole", "null"))
                    break
                children.append(_node(key, one, depth + 1, left))
        unit = "field" if isinstance(value, dict) else "item"
        words = f"{len(value)} {unit}{'' if len(value) == 1 else 's'}"
        return Node(name, words, "object" if isinstance(value, dict) else "list", children)
    return Node(name, _leaf(value), _type_of(value))


def _leaf(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def hex_dump(data: bytes) -> str:
    """Lines of an offset, sixteen bytes, and their characters, with dots for those that are none."""
    lines = []
    for start in range(0, min(len(data), MOST_HEX_BYTES), _HEX_COLUMNS):
        part = data[start : start + _HEX_COLUMNS]
        text = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {text}")
    if len(data) > MOST_HEX_BYTES:
        lines.append(f"… {len(data) - MOST_HEX_BYTES} more bytes")
    return "\n".join(lines)


def field_of(document: object, path: str) -> str | None:
    """The value at a path of names between dots, as a text; None without one."""
    if not isinstance(document, dict):
        return None
    if path in document:
        found = document[path]
        if found is None:
            return "null"
        return found if isinstance(found, str) and is_drawn(found) else json_text(found)
    name, _, rest = path.partition(".")
    return field_of(document.get(name), rest) if rest else None


def paths_of(documents: Iterable[object]) -> list[str]:
    """Paths of the fields of objects, without objects themselves, in the order in which they appear."""
    found: dict[str, None] = {}
    for document in documents:
        _collect(document, "", 0, found)
        if len(found) >= _MOST_PATHS:
            break
    return list(found)[:_MOST_PATHS]


def _collect(value: object, prefix: str, depth: int, found: dict[str, None]) -> None:
    if not isinstance(value, dict) or depth >= _MOST_PATH_DEPTH or len(found) >= _MOST_PATHS:
        return
    for name, one in value.items():
        path = f"{prefix}{name}"
        if isinstance(one, dict) and one and depth + 1 < _MOST_PATH_DEPTH:
            _collect(one, f"{path}.", depth + 1, found)
        else:
            found.setdefault(path)
