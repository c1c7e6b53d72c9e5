"""A JSON document as a tree that unfolds level by level."""

from __future__ import annotations

from collections.abc import Iterable

from .documents import pairs_of
from .parts import Node
from .texts import json_text

#: Limits of a tree: its nodes, and the characters of one text.
MOST_NODES, _MOST_TEXT, _MOST_DEPTH = 2000, 10_000, 60


def tree(value: object, name: str = "") -> Node:
    """A document with more than MOST_NODES values is cut; its text is whole."""
    return _node(name, value, 0, [MOST_NODES])


def _node(name: str, value: object, depth: int, left: list[int]) -> Node:
    left[0] -= 1
    if isinstance(value, dict | list):
        pairs: Iterable[tuple[str, object]] = (
            pairs_of(value) if isinstance(value, dict) else ((str(index), one) for index, one in enumerate(value))
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
