"""The end of a node that cannot continue. `halting.py` lists the causes."""

from __future__ import annotations

import asyncio

from .halting import decide


class Halt:
    """`failed` is done with the failure for which the node halts."""

    #: Made by `begin`.
    failed: asyncio.Future[Exception]

    def begin(self) -> None:
        """Begins with the start of a node, on its event loop."""
        self.failed = asyncio.get_running_loop().create_future()

    def halt(self, failure: Exception) -> bool:
        """The only way to end a node that runs. Returns whether the node halts, now or because of an earlier failure."""
        if self.failed.done():
            return True
        cause = decide(failure)
        if cause is not None:
            self.failed.set_result(failure)
        return cause is not None
