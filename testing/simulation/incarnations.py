"""Incarnations of nodes, from a start to a crash, and the code that belongs to each."""

from __future__ import annotations

import contextvars

#: The owner of work that belongs to no node.
OUTSIDE = ""

OWNER: contextvars.ContextVar[Incarnation | None] = contextvars.ContextVar("owner", default=None)


class Incarnation:
    """An incarnation of a node, from its start to its crash. Code outside of all nodes belongs to none."""

    __slots__ = ("is_alive", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True


def name_of(owner: Incarnation | None) -> str:
    return OUTSIDE if owner is None else owner.name
