"""Commits of a single voter: what its disk has is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...storage.files.failures import LogDirectoryFailure
from .metadata_log import FLUSH_RETRY_S, FLUSH_TASK, flush_on
from .quorum_voters import QuorumVoters

if TYPE_CHECKING:
    from ..runtime.node import Node
    from .metadata_log import QuorumLog


class LoneVoter:
    """Commits for a single voter, whose epoch begins at `epoch_start_offset`. `committed(end_offset)` is called for
    everything that is durable, `failed` when the disk fails.

    Records on the voter's disk are committed, since it is the majority.

    All appends in one turn of the event loop share one flush, which a thread runs; appends during a flush share the
    next one. No other node is involved, so no Raft state machine is created, which keeps the start fast. When another
    node fetches, the driver switches to one (`joining.py`).
    """

    leads = True
    is_caught_up = True

    def __init__(
        self,
        node: Node,
        quorum_log: QuorumLog,
        epoch: int,
        epoch_start_offset: int,
        committed: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self._quorum_log = quorum_log
        self._now_ms = node.clock.now_ms
        self._flushing = node.pools.metadata
        self._committed = committed
        self._failed = failed
        self._background = node.background
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
            while self._quorum_log.end_offset > self.offset:
                end_offset = self._quorum_log.end_offset
                await flush_on(self._quorum_log, self._flushing, end_offset, self._now_ms)
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
        if not self._is_retired and self._quorum_log.end_offset > self.offset:
            self.appended()

    @property
    def kraft_version(self) -> int:
        return self._quorum_log.quorum.kraft_version

    def voters_at(self, end_offset: int) -> QuorumVoters:
        return self._quorum_log.quorum

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
