"""Incarnations of nodes, from a start to a crash, and the code that belongs to each."""

from __future__ import annotations

import asyncio
import contextvars

#: The owner of work that belongs to no node.
OUTSIDE = ""

OWNER: contextvars.ContextVar[Incarnation | None] = contextvars.ContextVar("owner", default=None)


class Incarnation:
    """An incarnation of a node, from its start to its crash. Code outside of all nodes belongs to none."""

    __slots__ = ("held", "is_alive", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        #: The callbacks that became due while the process is paused, in order; None while it runs.
        self.held: list[asyncio.Handle] | None = None

    def pause(self) -> None:
        """Stops the process, as SIGSTOP does: nothing of it runs, and its connections accept data."""
        if self.held is None:
            self.held = []

    def resume(self) -> None:
        """Runs what became due during the pause. A plain callback calls it: a task may not run within another one."""
        held, self.held = self.held, None
        for handle in held or ():
            if not handle.cancelled():
                handle._run()


def name_of(owner: Incarnation | None) -> str:
    return OUTSIDE if owner is None else owner.name
