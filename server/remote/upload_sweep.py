"""Multipart uploads that do not end: those of leaders that were killed after another leader had deleted the segment.

An upload of a segment that the metadata does not have, or has as copied, is aborted, by the leader of the partition, once
it was there at two looks. A leader reads its COPY_SEGMENT_STARTED back before it uploads, so a ready cache has it. One that
is deposed would delete its objects at the end.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ...tiers.segment_metadata import COPY_SEGMENT_FINISHED
from ...tiers.store import OpenUpload, RemoteStorageError

if TYPE_CHECKING:
    from ...tiers.cache import RemoteLogMetadataCache
    from ...tiers.segment_metadata import TopicIdPartition
    from ..runtime.thread_pools import ThreadPool

log = logging.getLogger("odradek.remote")

#: From one look to the next: a listing of a bucket is a request that costs money.
INTERVAL_S = 1_800.0
#: A deletion of a partition does not wait longer for a store that does not let its uploads be listed or aborted.
_MOST_ATTEMPTS = 5


class FollowedLog(Protocol):
    """The part of a remote log that a sweep reads: its segments once their events are read, and who leads."""

    @property
    def leads(self) -> bool: ...

    @property
    def cache(self) -> RemoteLogMetadataCache | None: ...


class UploadSweep:
    """The open uploads of a store, as this broker last saw them. `store`: one without such a listing has none."""

    def __init__(self, store: object, threads: ThreadPool) -> None:
        self._list = getattr(store, "open_uploads", None)
        self._abort = getattr(store, "abort_uploads", None)
        self._threads = threads
        self._seen: set[OpenUpload] = set()
        self._next_s = 0.0
        #: Attempts of `abort_all` that failed.
        self._failed: Counter[TopicIdPartition] = Counter()

    async def abort_all(self, partition: TopicIdPartition) -> None:
        """Aborts the uploads of a partition of which the store keeps nothing. Raises RemoteStorageError, but
        not at the last of some attempts.
        """
        if self._list is None or self._abort is None:
            return
        try:
            await self._threads.run(self._abort, await self._threads.run(self._list, partition))
        except RemoteStorageError as failure:
            self._failed[partition] += 1
            if self._failed[partition] < _MOST_ATTEMPTS:
                raise
            log.warning("%s: uploads that have not ended are left: %s", partition, failure)
        del self._failed[partition]

    async def look(self, logs: Mapping[tuple[bytes, int], FollowedLog], now_s: float) -> None:
        """Aborts uploads that were stale at the last look, too. `logs`: the remote logs of this broker."""
        if self._list is None or self._abort is None or now_s < self._next_s:
            return
        self._next_s = now_s + INTERVAL_S
        if not any(one.leads for one in logs.values()):
            return
        try:
            uploads = await self._threads.run(self._list)
            stale = {one for one in uploads if _is_stale(one, logs)}
            ended = [one for one in stale if one in self._seen]
            self._seen = stale
            if ended:
                await self._threads.run(self._abort, ended)
                log.info("uploads of killed brokers, of segments that are deleted, were aborted: %d", len(ended))
        except RemoteStorageError as failure:
            log.warning("uploads that have not ended cannot be looked for: %s", failure)


def _is_stale(upload: OpenUpload, logs: Mapping[tuple[bytes, int], FollowedLog]) -> bool:
    remote = logs.get((upload.partition.topic_id, upload.partition.partition))
    if remote is None or not remote.leads or (cache := remote.cache) is None:
        return False
    segment = cache.segment(upload.segment_id)
    return segment is None or segment.state is COPY_SEGMENT_FINISHED
