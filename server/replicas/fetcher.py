"""A replica fetcher: replicates partitions of one leader, or a part of them, with one Fetch in flight.

The fetches are of one session (KIP-227): a request names only the partitions whose state has changed since the
last, and is answered when there is data, or after `replica.fetch.wait.max.ms`. A partition that failed is left out
for a while.

Before a request, the fetcher inspects only the changed partitions: those that had a response, were added, removed
or truncated, or whose delay has ended. So a round costs in proportion to the changes, not to the partitions
followed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic
from ..runtime.sliced_work import SlicedWork

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchPartition, FetchResponse, PartitionData
    from ...protocol.records.errors import BatchError
    from ..partitions.replica import Replica
    from ..runtime.node import Node
    from .fetch_ports import FetchPauses, FetchRequests, Followed

log = logging.getLogger("odradek.replicas")

Item = TypeVar("Item")
#: Topic id and index.
Key = tuple[bytes, int]

_LAST_SESSION_EPOCH = (1 << 31) - 1
#: Between two checks whether throttled replicas may be fetched again.
THROTTLED_MS = 100
#: Errors of a leader that does not lead yet, or no longer: it or this broker has old metadata. They are not logged at
#: once. The fetcher repeats its request after any error: this is no list of transient ones (`client/transient_errors.py`).
_STALE_METADATA_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)

#: Failures for old metadata that are not logged.
_QUIET_FAILURES = 6


class FollowerQuota(Protocol):
    """The throttle of what this broker fetches as a follower (`ReplicationQuota`)."""

    @property
    def is_on(self) -> bool: ...

    def is_throttled(self, replica: Replica, follower: int) -> bool:
        """Returns True if `follower` has to wait."""

    def record(self, replica: Replica, size: int) -> None:
        """Counts bytes of a response."""


class ReplicaFetcher:
    """A fetcher of partitions that broker `leader` leads. `purpose` names its connection to the leader.

    `start_behind_remote` has a log begin behind the part that only a remote store has; None without tiered storage.
    `pauses`: None for a fetcher that sends its next fetch with each response.
    """

    def __init__(
        self,
        node: Node,
        leader: int,
        purpose: str,
        requests: FetchRequests,
        quota: FollowerQuota,
        start_behind_remote: Callable[..., object] | None = None,
        pauses: FetchPauses | None = None,
    ) -> None:
        self._pauses = pauses
        self._start_behind_remote = start_behind_remote
        self._leader = leader
        self._purpose = purpose
        self._requests = requests
        self._config = node.config
        self._clock = node.clock
        self._damage = node.damage
        self._lines = node.lines
        self._quota = quota
        self._followed: dict[Key, Followed] = {}
        #: Partitions to inspect before the next request, and partitions that are left out for a while.
        self._changed: dict[Key, None] = {}
        self._delayed: dict[Key, Followed] = {}
        self._session_id = 0
        self._session_epoch = 0
        #: The last request for each partition of the session.
        self._sent: dict[Key, FetchPartition] = {}
        self._max_bytes = 0
        #: Some replicas may be throttled (KIP-73): then all are inspected.
        self._is_throttled = False
        self._failures = 0
        #: A fetch is in flight, or its response is being applied.
        self.is_waiting = False
        self._applying = SlicedWork(self._apply_failed)
        #: Whether the response had a partition whose next fetch must not wait, and when it arrived, in the loop's time.
        self._is_urgent = False
        self._arrived_ms = 0.0
        #: The next fetch, when it is planned, and for when in the loop's time.
        self._planned: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, followed: Followed) -> None:
        before = self._followed.get(followed.key)
        if before is not None:
            before.leave()
        self._followed[followed.key] = followed
        followed.changed = self._mark_changed
        self._mark_changed(followed)

    def _mark_changed(self, followed: Followed) -> None:
        """Marks the partition as changed since the last request."""
        self._changed[followed.key] = None
        self._plan()

    def close(self) -> None:
        self._is_closed = True
        self._applying.stop()
        if self._planned is not None:
            self._planned.cancel()
        for followed in self._followed.values():
            followed.leave()

    # Requests.

    def _plan(self, delay_ms: float = 0) -> None:
        """Schedules the next fetch, unless one is in flight, in the next turn of the loop or after a while."""
        if self.is_waiting or self._is_closed:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_ms / 1000
        if self._planned is not None:
            if self._due <= due:
                return
            self._planned.cancel()
        self._due, self._planned = due, loop.call_at(due, self._fetch)

    def _fetch(self) -> None:
        self._planned = None
        if self.is_waiting or self._is_closed:
            return
        endpoint = self._requests.endpoint(self._leader)
        if endpoint is None:
            self._plan(self._backoff_ms)
            return
        changed_partitions, forgotten = self._changed_partitions(self._steady_ms())
        if not self._followed:
            return
        if len(self._sent) + sum(key not in self._sent for key in changed_partitions) == len(forgotten):
            self._plan(self._soonest_ms())
            return
        self._changed.clear()
        for key in forgotten:
            del self._sent[key]
        self._sent.update(changed_partitions)
        self.is_waiting = True
        if self._pauses is not None:
            self._pauses.sent(asyncio.get_running_loop().time() * 1000)
        self._requests.send(
            endpoint, self._request(changed_partitions, forgotten), self._answered, purpose=self._purpose
        )

    def _steady_ms(self) -> int:
        """Returns the time for delays: the wall clock may be set back meanwhile."""
        return int(asyncio.get_running_loop().time() * 1000)

    def _changed_partitions(self, now_ms: int) -> tuple[dict[Key, FetchPartition], list[Key]]:
        """Returns the partitions that the next request names, and those that it removes from the session."""
        self._note_settings()
        for key in [key for key, followed in self._delayed.items() if followed.not_before_ms <= now_ms]:
            del self._delayed[key]
            self._changed[key] = None
        changed_partitions: dict[Key, FetchPartition] = {}
        forgotten: list[Key] = []
        for key in self._changed:
            wanted, reported = self._wanted(key, now_ms), self._sent.get(key)
            if wanted is not None and wanted != reported:
                changed_partitions[key] = wanted
            elif wanted is None and reported is not None:
                forgotten.append(key)
        return changed_partitions, forgotten

    def _note_settings(self) -> None:
        """Marks all partitions as changed when a setting of all has changed."""
        max_bytes = self._config.get("replica.fetch.max.bytes")
        was_throttled, self._is_throttled = self._is_throttled, self._quota.is_on
        if was_throttled or self._is_throttled or max_bytes != self._max_bytes:
            self._changed.update(dict.fromkeys(self._followed))
        self._max_bytes = max_bytes

    def _wanted(self, key: Key, now_ms: int) -> FetchPartition | None:
        """Returns the request for a partition; None when it is no longer followed, or left out for now."""
        followed = self._followed.get(key)
        if followed is None:
            return None
        if not followed.is_current:
            followed.leave()
            del self._followed[key]
            self._delayed.pop(key, None)
            return None
        if followed.is_waiting:
            return None
        if followed.not_before_ms > now_ms:
            self._delayed[key] = followed
            return None
        if self._is_throttled and self._quota.is_throttled(followed.hosted, self._requests.node_id):
            return None
        return followed.wanted(self._max_bytes)

    def _soonest_ms(self) -> int:
        soonest_ms = min((one.not_before_ms for one in self._delayed.values()), default=0) - self._steady_ms()
        return soonest_ms if soonest_ms > 0 else THROTTLED_MS

    @property
    def _backoff_ms(self) -> int:
        return self._config.get("replica.fetch.backoff.ms")

    def _request(self, changed_partitions: dict[Key, FetchPartition], forgotten: list[Key]) -> FetchRequest:
        config = self._config
        is_short = len(self._sent) < len(self._followed)
        return FetchRequest(
            replica_state=self._requests.replica_state(),
            # Some are left out for a moment only.
            max_wait_ms=min(config.get("replica.fetch.wait.max.ms"), 100 if is_short else 1 << 31),
            min_bytes=config.get("replica.fetch.min.bytes"),
            max_bytes=config.get("replica.fetch.response.max.bytes"),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            isolation_level=self._requests.isolation_level,
            topics=[
                FetchTopic(topic=self._requests.topic_name(topic_id), topic_id=topic_id, partitions=ones)
                for topic_id, ones in _by_topic(changed_partitions.items())
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic=self._requests.topic_name(topic_id), topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in _by_topic((key, key[1]) for key in forgotten)
            ],
        )

    # Responses.

    def _answered(self, response: FetchResponse | None) -> None:
        self.is_waiting = False
        if self._is_closed:
            return
        if response is None or response.error_code:
            # If the leader has lost the session, a new one begins.
            self._end_session()
            for one in self._followed.values():
                one.disconnected()
            self._failures += 1
            self._plan(
                0 if response is not None and self._failures == 1 else min(self._backoff_ms, 50 * self._failures)
            )
            return
        self._failures = 0
        asked = self._sent
        self._go_on_with_session(response)
        self._is_urgent, self._arrived_ms = False, asyncio.get_running_loop().time() * 1000
        self.is_waiting = True
        self._applying.begin(self._apply(response, asked), self._applied)

    def _apply(self, response: FetchResponse, asked: dict[Key, FetchPartition]) -> Iterator[None]:
        """Applies a response of many MB in slices, a partition in a step: each append may wait for the disk. Nothing else
        arrives on this connection meanwhile that could be read into the memory of the response.
        """
        now_ms = self._clock.now_ms()
        for topic in response.responses:
            for data in topic.partitions:
                key = (self._requests.topic_id(topic), data.partition_index)
                followed, reported = self._followed.get(key), asked.get(key)
                self._changed[key] = None
                if followed is None or reported is None or not followed.is_current:
                    continue
                if reported.current_leader_epoch == followed.epoch:
                    self._take(followed, data, now_ms)
                    self._is_urgent = self._is_urgent or followed.is_urgent
                    if data.records:
                        yield

    def _applied(self) -> None:
        self.is_waiting = False
        self._fetch_next(is_urgent=self._is_urgent)

    def _apply_failed(self, failure: Exception) -> None:
        """A bug; what was not applied is fetched again."""
        log.error("a bug: applying a response of broker %d failed", self._leader, exc_info=failure)
        self.is_waiting = False
        self._end_session()
        self._plan(self._backoff_ms)

    def _fetch_next(self, *, is_urgent: bool) -> None:
        """Sends the next fetch, or plans it."""
        pause_ms = 0.0
        if self._pauses is not None:
            now_ms = asyncio.get_running_loop().time() * 1000
            pause_ms = self._pauses.pause_ms(now_ms, is_urgent=is_urgent, took_ms=now_ms - self._arrived_ms)
        if pause_ms > 0:
            self._plan(pause_ms)
        else:
            self._fetch()

    def _take(self, followed: Followed, data: PartitionData, now_ms: int) -> None:
        """Applies a partition's response. An exception of one partition must not stop the others."""
        try:
            error = followed.take(data, now_ms)
        except Exception:
            log.exception("a bug: handling the response of broker %d for %s failed", self._leader, followed.hosted.name)
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        if error:
            self._error_response(followed, error)
        elif data.records:
            self._quota.record(followed.hosted, len(data.records))

    def _go_on_with_session(self, response: FetchResponse) -> None:
        if response.session_id == 0:
            self._end_session()
        elif response.session_id != self._session_id:
            self._session_id, self._session_epoch = response.session_id, 1
        else:
            self._session_epoch = 1 if self._session_epoch == _LAST_SESSION_EPOCH else self._session_epoch + 1

    def _end_session(self) -> None:
        """Begins a new session: the next request has all partitions."""
        self._session_id = self._session_epoch = 0
        self._sent = {}
        self._changed = dict.fromkeys(self._followed)

    def _error_response(self, followed: Followed, error: int) -> None:
        followed.failed(self._steady_ms(), self._backoff_ms)
        name = followed.hosted.name
        damage, followed.damage = followed.damage, None
        if damage is not None:
            self._met_damage(followed, damage)
        elif error == ErrorCode.CORRUPT_MESSAGE:
            words = "%s: broker %d reports that its records from offset %d on are damaged"
            offset = followed.hosted.log_end_offset
            self._damage.say((name, "leader", offset), words, name, self._leader, offset)
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE:
            endpoint = self._requests.endpoint(self._leader)
            if endpoint is not None:
                followed.out_of_range(self._requests, self._clock, endpoint)
        elif error == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE and self._start_behind_remote is not None:
            self._start_behind_remote(followed)
        elif error not in _STALE_METADATA_ERRORS or followed.failures > _QUIET_FAILURES:
            # A leader that takes its roles late, with thousands of partitions, returns the same error for each of them.
            words = f"{name}: broker {self._leader} returned {ErrorCode(error).name}"
            self._lines.log(log, logging.WARNING, f"broker {self._leader}", ErrorCode(error), words)

    def _met_damage(self, followed: Followed, damage: BatchError) -> None:
        """Counts and logs damaged records. The leader learns of the damage by the repeated fetch."""
        name, offset = followed.hosted.name, followed.hosted.log_end_offset
        self._damage.bad_fetches += 1
        words = "%s: broker %d sent damaged records from offset %d on; they are fetched again: %s"
        self._damage.say((name, "fetched", offset), words, name, self._leader, offset, damage)


def _by_topic(items: Iterable[tuple[Key, Item]]) -> Iterable[tuple[bytes, list[Item]]]:
    topics: dict[bytes, list[Item]] = {}
    for (topic_id, _), item in items:
        topics.setdefault(topic_id, []).append(item)
    return topics.items()
