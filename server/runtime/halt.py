"""The end of a node that cannot continue. `halting.py` lists the causes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from .halting import decide


class Halt:
    """`failed` is done with the failure for which the node halts."""

    #: Made by `begin`.
    failed: asyncio.Future[Exception]

    def begin(self) -> None:
        """Begins with the start of a node, on its event loop."""
        self.failed = asyncio.get_running_loop().create_future()

    async def during(self, start: Coroutine[object, None, None]) -> None:
        """Runs the start of the node. Raises its failure, or the one for which the node halts meanwhile: a start waits for
        other nodes, and they never hear again from a node that has halted.
        """
        starting = asyncio.ensure_future(start)
        ends: list[asyncio.Future[None] | asyncio.Future[Exception]] = [starting, self.failed]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_over = starting.done()
            if not is_over:
                starting.cancel()
                await asyncio.wait([starting])
        if not is_over:
            raise self.failed.result()
        starting.result()

    def halt(self, failure: Exception) -> bool:
        """The only way to end a node that runs. Returns whether the node halts, now or because of an earlier failure."""
        if self.failed.done():
            return True
        cause = decide(failure)
        if cause is not None:
            self.failed.set_result(failure)
        return cause is not None
