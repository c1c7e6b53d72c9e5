"""The node that a piece of work belongs to, carried by the context in which it was scheduled."""

from __future__ import annotations

import contextvars

#: The owner of work that belongs to no node.
OUTSIDE = ""


class Incarnation:
    """An incarnation of a node, from its start to its crash. Code outside of all nodes belongs to none."""

    __slots__ = ("is_alive", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True


OWNER: contextvars.ContextVar[Incarnation | None] = contextvars.ContextVar("owner", default=None)


def name_of(owner: Incarnation | None) -> str:
    return OUTSIDE if owner is None else owner.name
