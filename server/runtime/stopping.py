"""Stops of several parts, in order: one that fails keeps no other from its own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

log = logging.getLogger("odradek.broker")

Stop = Callable[[], Awaitable[None] | None]


async def stop_each(stops: Iterable[Stop]) -> None:
    """Calls each, one after the other. Logs failures, and raises the first of them in the end."""
    failures: list[Exception] = []
    for stop in stops:
        try:
            waiting = stop()
            if waiting is not None:
                await waiting
        except Exception as failure:
            log.exception("a part of the node does not stop; the others do")
            failures.append(failure)
    if failures:
        raise failures[0]
