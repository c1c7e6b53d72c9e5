"""Fetches of followers, and the partitions of their sessions that are idle.

A follower's session has thousands of partitions, and most of them have no new records. Such a partition is *idle* in that
session: its follower is in sync, has the whole log of the leader, and has its high watermark.

          inspected, and the response has nothing for it
 active  ------------------------------------------------>  idle
         <------------------------------------------------
          appended to, truncated, deleted, given another leader or epoch, or named in a request

A request inspects active partitions only, so a request without new records costs the same for ten partitions as for ten
thousand. An idle partition waits for the next append in `end_watchers`. Each request of the session counts as a fetch of
it: when it becomes active, the session's last request is the time at which the follower was last caught up.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from .damaged_reads import inspects_again
from .fetch import Fetch
from .fetch_session import IdleWatcher

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest, FetchResponse
    from ..network.call import Call
    from ..partitions.hosted_partition import HostedPartition
    from .fetch_context import FetchContext
    from .fetch_path import FetchPath
    from .fetch_response import FetchResult
    from .fetch_session import FetchSession
    from .fetched_partition import FetchedPartition


class FollowerFetch(Fetch):
    """A Fetch of a follower: it reads uncommitted records, too, and its offsets are the follower's log ends."""

    __slots__ = ()
    #: A follower waits for what is written.
    _watchers_of = attrgetter("end_watchers")

    def __init__(self, path: FetchPath, call: Call[FetchRequest], context: FetchContext) -> None:
        super().__init__(path, call, context)
        session = context.session
        if session is not None and session.replica_epoch != self._replica_epoch:
            session.replica_epoch = self._replica_epoch
            session.active_partitions = dict(session.partitions)

    def _wanted(self) -> Iterable[FetchedPartition]:
        session = self._context.session
        return super()._wanted() if session is None else list(session.active_partitions.values())

    def _skip_idle(self, hosted: HostedPartition, wanted: FetchedPartition) -> bool:
        self._fetcher_has(hosted, wanted)
        role, session = hosted.role, self._context.session
        if role.high_watermark != wanted.sent_high_watermark:
            return False
        if session is None or self._replica_id not in role.isr or role.high_watermark != hosted.log.log_end_offset:
            self._hosts.append(hosted)
        else:
            IdleFollower(session, wanted, hosted, self._replica_id).deactivate()
        return True

    def _fetcher_has(self, hosted: HostedPartition, wanted: FetchedPartition) -> None:
        """Notes once, when the request is new, that the follower has everything below its fetch offset."""
        if self._is_new:
            hosted.follower_fetched(
                self._replica_id,
                wanted.fetch_offset,
                wanted.log_start_offset,
                self._replica_epoch,
                self._path.clock.now_ms(),
            )

    def _respond(self, results: list[FetchResult]) -> FetchResponse:
        for one in results:
            if one.records is not None and one.hosted is not None:
                inspects_again(self._path.scrubber, one.hosted, self._replica_id, one.wanted.fetch_offset)
        quota = self._path.replication().leaders
        if quota.is_on:
            for one in results:
                if one.records is not None and one.hosted is not None:
                    quota.record(one.hosted, one.records.size)
        return super()._respond(results)


class IdleFollower(IdleWatcher):
    """Waits in `hosted.end_watchers` on behalf of a session, which does not look at `partition` meanwhile."""

    __slots__ = ("_replica_id",)

    def __init__(
        self, session: FetchSession, partition: FetchedPartition, hosted: HostedPartition, replica_id: int
    ) -> None:
        super().__init__(session, partition, hosted)
        self._replica_id = replica_id

    def deactivate(self) -> None:
        """Makes the partition idle here, and active in other sessions of the same broker, which inspect it again."""
        watchers = self._hosted.end_watchers
        for watcher in list(watchers):
            if type(watcher) is IdleFollower and watcher._replica_id == self._replica_id:
                watcher._activate()
        watchers[self] = None
        del self._session.active_partitions[self._partition.key]

    def _activate(self) -> None:
        session, partition, hosted = self._session, self._partition, self._hosted
        hosted.end_watchers.pop(self, None)
        hosted.role.follower_kept_up(self._replica_id, session.last_used_ms)
        session.activations += 1
        if session.partitions.get(partition.key) is partition:
            session.active_partitions[partition.key] = partition
            if session.parked is not None:
                session.parked.watch_too(hosted)
