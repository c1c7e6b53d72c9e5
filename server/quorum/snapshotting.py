"""Decides when every node writes a snapshot of the metadata: by bytes since the last one, and by time (KIP-630).

A node that finds damage in its log writes a snapshot immediately from its image in memory, and other nodes fetch it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...metadata.image import MetadataImage
from ...storage.files.open_files import LogDirectoryFailure
from .metadata_batches import QuorumVoters
from .snapshots import write_image_snapshot

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.thread_pools import ThreadPool
    from .metadata_log import QuorumLog

log = logging.getLogger("odradek.quorum")

_SNAPSHOT_BYTES = "metadata.log.max.record.bytes.between.snapshots"
_SNAPSHOT_INTERVAL = "metadata.log.max.snapshot.interval.ms"


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
    ) -> None:
        self._config = config
        self._clock = clock
        self._disk = disk
        self._log = quorum_log
        self._committed = committed
        self._writing: asyncio.Task[None] | None = None
        self._due: asyncio.TimerHandle | None = None
        self._is_stopped = False
        quorum_log.on_uncovered_damage = self._take

    def start(self) -> None:
        interval_ms: int = self._config.get(_SNAPSHOT_INTERVAL)
        if interval_ms > 0:
            self._due = self._clock.call_at(self._clock.now_ms() + interval_ms, self._interval_is_over)

    def _interval_is_over(self) -> None:
        self.start()
        self._take()

    def grown(self) -> None:
        """Checks the size limit after more records are committed."""
        if self._log.bytes_since_snapshot >= self._config.get(_SNAPSHOT_BYTES):
            self._take()

    def _take(self) -> None:
        """Writes a snapshot unless one is being written or no new records are committed."""
        if self._writing is not None or self._is_stopped:
            return
        newest = self._log.snapshots[-1].end_offset if self._log.snapshots else 0
        committed = self._committed()
        if committed is not None and newest < committed[0].offset + 1:
            self._log.bytes_since_snapshot = 0
            self._writing = asyncio.get_running_loop().create_task(self._write(*committed))

    async def _write(self, image: MetadataImage, voters: QuorumVoters) -> None:
        """Writes the snapshot in a thread. An image never changes, so no lock is needed."""
        quorum_log, now_ms = self._log, self._clock.now_ms()
        try:
            snapshot = await self._disk.run(write_image_snapshot, quorum_log.directory, image, voters, now_ms)
            quorum_log.add_snapshot(snapshot, now_ms)
        except (OSError, LogDirectoryFailure):
            log.exception("could not write a snapshot of the metadata; the log keeps all records")
        finally:
            self._writing = None

    async def stop(self) -> None:
        self._is_stopped = True
        if self._due is not None:
            self._due.cancel()
        if self._writing is not None:
            await self._writing
