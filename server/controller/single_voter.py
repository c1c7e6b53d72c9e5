"""A quorum of one voter: records on its disk are committed, since it is the majority.

All appends in one turn of the event loop share one flush, which a thread runs; appends during a flush share the next
one. No other node is involved, so no Raft state machine is created, which keeps the start fast. When another node
fetches, the driver switches to one (`joining.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from ...replication.controller.controller import Controller
from ...replication.controller.result import ControllerResult
from ...storage.files.open_files import LogDirectoryFailure
from ..runtime.background import BackgroundTasks
from ..runtime.thread_pools import ThreadPool
from .metadata_log import QuorumLog
from .registration import Registration
from .snapshots import QuorumVoters

#: The task's name in logs, metrics and health.
FLUSH_TASK = "metadata log flush"
#: After an unexpected failure; clients wait for the flush.
FLUSH_RETRY_S = 1.0


class LoneVoter:
    """Commits for a single voter, whose epoch begins at `epoch_start_offset`. `committed(end_offset)` is called for
    everything that is durable, `failed` when the disk fails.
    """

    leads = True
    is_caught_up = True

    def __init__(
        self,
        quorum_log: QuorumLog,
        epoch: int,
        epoch_start_offset: int,
        now_ms: Callable[[], int],
        flushing: ThreadPool,
        committed: Callable[[int], None],
        failed: Callable[[Exception], None],
        background: BackgroundTasks,
    ) -> None:
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self._log = quorum_log
        self._now_ms = now_ms
        self._flushing = flushing
        self._committed = committed
        self._failed = failed
        self._background = background
        self._committing: asyncio.Task[None] | None = None
        self._is_retired = False
        #: Everything below this offset is committed.
        self.offset = quorum_log.end_offset

    def appended(self) -> None:
        if self._committing is None:
            # The task begins in the next turn of the event loop, so one flush covers all appends of this turn.
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    async def _commit(self) -> None:
        try:
            while self._log.end_offset > self.offset:
                end_offset = self._log.end_offset
                flush = self._log.prepare_flush()
                if flush is not None:
                    await self._flushing.run(flush.run)
                    self._log.flushed(flush, self._now_ms())
                if self._is_retired:
                    return
                self.offset = end_offset
                self._committed(end_offset)
            self._background.succeeded(FLUSH_TASK)
        except LogDirectoryFailure as failure:
            self._failed(failure)
        except Exception as failure:
            self._background.failed(FLUSH_TASK, failure)
            asyncio.get_running_loop().call_later(FLUSH_RETRY_S, self._commit_again)
        finally:
            self._committing = None

    def _commit_again(self) -> None:
        if not self._is_retired and self._log.end_offset > self.offset:
            self.appended()

    @property
    def kraft_version(self) -> int:
        return self._log.quorum.kraft_version

    def voters_at(self, end_offset: int) -> QuorumVoters:
        return self._log.quorum

    def halt(self) -> None:
        """Nothing: a disk that fails has ended the flushes."""

    async def leave(self) -> None:
        """Nothing: there is no other voter that could follow."""

    def retire(self) -> None:
        """Stops committing: other voters count from now on."""
        self._is_retired = True

    async def until_idle(self) -> None:
        """Waits until everything appended is committed, or the disk has failed."""
        while self._committing is not None:
            await asyncio.shield(self._committing)


def leaving(registration: Registration, broker_epoch: int, controller: Controller) -> Iterator[ControllerResult]:
    """Yields the decisions of a stopping single broker; each must be appended before the next. The first begins the
    shutdown. The last finds that the broker leads nothing and ends it.
    """
    leaves = True
    while leaves:
        request = registration.heartbeat(broker_epoch, controller.next_offset - 1, want_shut_down=True)
        result = controller.handle(request, 1)
        yield result
        leaves = bool(result.records) and not getattr(result.response, "should_shut_down", True)
