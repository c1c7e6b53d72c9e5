"""Decides when every node writes a snapshot of the metadata: by bytes since the last one, and by time (KIP-630).

A node that finds damage in its log writes a snapshot immediately from its image in memory, and other nodes fetch
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...metadata.image import MetadataImage
from ..runtime.background_tasks import RETRY_MS, BackgroundTasks
from .metadata_log import QuorumLog
from .metadata_snapshots import write_image_snapshot
from .quorum_voters import QuorumVoters

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.thread_pools import ThreadPool

#: The task's name in logs, metrics and health.
TASK = "metadata snapshot"
_SNAPSHOT_BYTES: Final = "metadata.log.max.record.bytes.between.snapshots"
_SNAPSHOT_INTERVAL: Final = "metadata.log.max.snapshot.interval.ms"


class Snapshotting:
    """Writes snapshots. `committed()` returns the image of what is committed and the voters at that point. It returns
    None inside a metadata transaction, which a snapshot would contain only in part. `disk`: the threads that write.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        disk: ThreadPool,
        quorum_log: QuorumLog,
        committed: Callable[[], tuple[MetadataImage, QuorumVoters] | None],
        background: BackgroundTasks,
    ) -> None:
        self._config = config
        self._clock = clock
        self._disk = disk
        self._quorum_log = quorum_log
        self._committed = committed
        self._writing: asyncio.Task[None] | None = None
        self._background = background
        self._due: asyncio.TimerHandle | None = None
        #: Another attempt, after a failed one.
        self._retry: asyncio.TimerHandle | None = None
        self._is_stopped = False
        quorum_log.on_uncovered_damage = self._take

    def start(self) -> None:
        interval_ms = self._config.get(_SNAPSHOT_INTERVAL)
        if interval_ms > 0:
            self._due = self._clock.call_at(self._clock.now_ms() + interval_ms, self._interval_is_over)

    def _interval_is_over(self) -> None:
        self.start()
        self._take()

    def grown(self) -> None:
        """Checks the size limit after more records are committed."""
        if self._retry is None and self._quorum_log.bytes_since_snapshot >= self._config.get(_SNAPSHOT_BYTES):
            self._take()

    def _take(self) -> None:
        """Writes a snapshot unless one is being written or no new records are committed."""
        if self._writing is not None or self._is_stopped:
            return
        newest = self._quorum_log.snapshots[-1].end_offset if self._quorum_log.snapshots else 0
        committed = self._committed()
        if committed is not None and newest < committed[0].offset + 1:
            self._cancel_retry()
            covered_bytes, self._quorum_log.bytes_since_snapshot = self._quorum_log.bytes_since_snapshot, 0
            self._writing = asyncio.get_running_loop().create_task(self._write(*committed, covered_bytes))

    async def _write(self, image: MetadataImage, voters: QuorumVoters, covered_bytes: int) -> None:
        """Writes the snapshot in a thread. An image never changes, so no lock is needed."""
        quorum_log, now_ms = self._quorum_log, self._clock.now_ms()
        try:
            snapshot = await self._disk.run(write_image_snapshot, quorum_log.directory, image, voters, now_ms)
            quorum_log.add_snapshot(snapshot, now_ms)
            self._background.succeeded(TASK)
        except Exception as failure:  # the log keeps all records meanwhile
            self._background.failed(TASK, failure)
            quorum_log.bytes_since_snapshot += covered_bytes
            if not self._is_stopped:
                self._retry = self._clock.call_at(self._clock.now_ms() + RETRY_MS, self._take_again)
        finally:
            self._writing = None
        self.grown()  # by what came meanwhile

    def _take_again(self) -> None:
        self._retry = None
        self._take()

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    async def stop(self) -> None:
        self._is_stopped = True
        self._cancel_retry()
        if self._due is not None:
            self._due.cancel()
        if self._writing is not None:
            await self._writing
