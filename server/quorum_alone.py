"""A quorum of one: what the disk has is committed, since a majority of one has it.

All that was appended in one turn of the event loop shares one flush, which a thread does; what comes during a flush shares
the next one. Nobody need be asked, so no machine is needed, and a start pays for none; when somebody comes to fetch, the
driver goes on with one (`quorum_joining.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from .quorum_log import QuorumLog


class LoneVoter:
    """`committed(end_offset)` is called for everything that has reached the disk, `failed` when the disk does."""

    def __init__(
        self,
        quorum_log: QuorumLog,
        now_ms: Callable[[], int],
        flushing: ThreadPoolExecutor,
        committed: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._log = quorum_log
        self._now_ms = now_ms
        self._flushing = flushing
        self._committed = committed
        self._failed = failed
        self._committing: asyncio.Task[None] | None = None
        self._is_retired = False
        #: Below it everything is committed.
        self.offset = quorum_log.end_offset

    def appended(self) -> None:
        if self._committing is None:
            # The task begins in the next turn of the loop: what else this turn brings is in the same flush.
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._log.end_offset > self.offset:
                end_offset = self._log.end_offset
                flush = self._log.prepare_flush()
                if flush is not None:
                    await loop.run_in_executor(self._flushing, flush.run)
                    self._log.flushed(flush, self._now_ms())
                if self._is_retired:
                    return
                self.offset = end_offset
                self._committed(end_offset)
        except Exception as failure:
            self._failed(failure)
        finally:
            self._committing = None

    def retire(self) -> None:
        """Others count too from now on."""
        self._is_retired = True

    async def settled(self) -> None:
        """Everything that was appended is committed; or the disk has failed."""
        while self._committing is not None:
            await asyncio.shield(self._committing)
