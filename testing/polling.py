"""Waiting for a condition in the loop of a broker, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

POLL_S = 0.002
DEADLINE_S = 30.0


async def reached(condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Returns when the condition holds. Raises TimeoutError, which names `what` was waited for."""
    until = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        if asyncio.get_running_loop().time() >= until:
            raise TimeoutError(f"timeout after {timeout_s:g} s while waiting for {what}")
        await asyncio.sleep(POLL_S)
