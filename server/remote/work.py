"""The parts that the remote logs of a broker share: the store, its indexes, threads, quotas, counters and events."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import TOPIC_RESOURCE
from ...tiers.cache import Applied
from ...tiers.indexes import IndexCache
from ...tiers.segment_metadata import RemoteLogMetadata
from ..runtime.thread_pools import ThreadPool
from .metadata_log import PublishFailed

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...metadata.image import MetadataImage
    from ...tiers.store import RemoteStore
    from ..config.broker_config import BrokerConfig
    from ..controller.cluster_view import Leaders
    from ..runtime.clock import Clock
    from ..runtime.counters import BackgroundTasks
    from ..runtime.subsystem import Lazy, MetadataCache
    from .metadata_log import MetadataLog


#: Kafka's default of the two keys: no limit.
UNLIMITED = (1 << 63) - 1


class RemoteQuota:
    """The rate over the last windows, as Kafka's `RLMQuotaManager` measures it. Times in milliseconds."""

    def __init__(self, most_per_second: int, windows: int, window_s: int) -> None:
        self.most_per_second = most_per_second
        self._windows = windows
        self._window_ms = window_s * 1000
        #: (number of the window, bytes), the last one at the end.
        self._counted: deque[tuple[int, int]] = deque()

    def record(self, size: int, now_ms: int) -> None:
        number = now_ms // self._window_ms
        if self._counted and self._counted[-1][0] == number:
            size += self._counted.pop()[1]
        self._counted.append((number, size))

    def rate(self, now_ms: int) -> float:
        """Returns bytes per second over the windows; those before the current one count whole."""
        first = now_ms // self._window_ms - self._windows + 1
        while self._counted and self._counted[0][0] < first:
            self._counted.popleft()
        elapsed_ms = (self._windows - 1) * self._window_ms + now_ms % self._window_ms
        return sum(size for _, size in self._counted) * 1000 / max(elapsed_ms, self._window_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Returns how long to wait until the rate is within the quota; 0: it is."""
        if self.most_per_second >= UNLIMITED or self.rate(now_ms) <= self.most_per_second:
            return 0
        return self._window_ms - now_ms % self._window_ms


class RemoteTopicCounters:
    """Counters of one topic. They only grow."""

    __slots__ = (
        "aux_errors", "aux_requests", "copy_bytes", "copy_errors", "copy_requests", "delete_errors", "delete_requests",
        "expired_searches", "fetch_bytes", "fetch_errors", "fetch_requests",
    )  # fmt: skip

    def __init__(self) -> None:
        self.copy_bytes = self.copy_requests = self.copy_errors = 0
        self.fetch_bytes = self.fetch_requests = self.fetch_errors = 0
        self.delete_requests = self.delete_errors = 0
        self.aux_requests = self.aux_errors = 0
        #: Partitions of ListOffsets that were answered before the store was searched.
        self.expired_searches = 0


class RemoteCounters:
    """Counters of this broker."""

    def __init__(self) -> None:
        self.topics: dict[str, RemoteTopicCounters] = {}
        #: Fetches that were answered before their remote reads had ended.
        self.expired_fetches = 0
        #: Reads of the store that have ended, and the time that they took.
        self.reads = 0
        self.read_ms = 0.0
        self.copy_throttled_ms = 0
        self.fetch_throttled_ms = 0

    def topic(self, name: str) -> RemoteTopicCounters:
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = RemoteTopicCounters()
        return found


_SIZES = {
    "copiers": "remote.log.manager.copier.thread.pool.size",
    "expirers": "remote.log.manager.expiration.thread.pool.size",
    "readers": "remote.log.reader.threads",
    "followers": "remote.log.manager.follower.thread.pool.size",
}
_COPY_QUOTA = (
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.copy.quota.window.num",
    "remote.log.manager.copy.quota.window.size.seconds",
)
_FETCH_QUOTA = (
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.fetch.quota.window.num",
    "remote.log.manager.fetch.quota.window.size.seconds",
)
_INDEX_BYTES = "remote.log.index.file.cache.total.size.bytes"


class TopicConfig(NamedTuple):
    """Configs of a topic, and the number of changes of the broker's configuration. Equal ones give the same values."""

    overrides: Mapping[str, str]
    changes: int


class RemoteWork:
    """The parts that the remote logs of a broker share."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, metadata: MetadataCache, leaders: Leaders, peers: Lazy[Peers],
        background: BackgroundTasks, events: MetadataLog, store: RemoteStore, has_commits_until: Callable[[int], bool],
    ) -> None:  # fmt: skip
        """`has_commits_until`: returns whether the image has everything that was committed so many ms ago."""
        self.config = config
        self.clock = clock
        self.leaders = leaders
        self.peers = peers
        self.background = background
        self.events = events
        self.store = store
        self.has_commits_until = has_commits_until
        self.node_id = config.node_id
        self._metadata = metadata
        self._loop = asyncio.get_running_loop()
        self.indexes = IndexCache(store, config.get(_INDEX_BYTES))
        self.copiers, self.expirers, self.readers, self.followers = (
            ThreadPool(f"remote-{name}", config.get(key)) for name, key in _SIZES.items()
        )
        self.copy_quota, self.fetch_quota = (
            RemoteQuota(*(config.get(key) for key in keys)) for keys in (_COPY_QUOTA, _FETCH_QUOTA)
        )
        self.counters = RemoteCounters()
        #: The ids of segments whose upload has not ended. It may outlive the partition's `RemoteLog`.
        self.copying: set[bytes] = set()
        self.is_stopping = False
        self._config_changes = 0
        config.subscribe(self._reconfigured)

    @property
    def pools(self) -> tuple[ThreadPool, ...]:
        return self.copiers, self.expirers, self.readers, self.followers

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig(self._metadata.image.config(TOPIC_RESOURCE, topic), self._config_changes)

    def publish_from_thread(self, event: RemoteLogMetadata) -> Applied:
        """Writes an event, from a thread. Raises PublishFailed."""
        if self.is_stopping:
            raise PublishFailed("the broker stops")
        return asyncio.run_coroutine_threadsafe(self.events.publish(event), self._loop).result()

    def backoff_s(self, failures: int) -> float:
        get = self.config.get
        first_ms, most_ms = (
            get("remote.log.manager.task.retry.backoff.ms"),
            get("remote.log.manager.task.retry.backoff.max.ms"),
        )
        jitter: float = get("remote.log.manager.task.retry.jitter")
        wait_ms = min(most_ms, first_ms * 2 ** min(failures - 1, 20))
        return float(wait_ms * random.uniform(1 - jitter, 1 + jitter) / 1000)

    def _reconfigured(self, changed: frozenset[str]) -> None:
        config = self.config
        self._config_changes += 1
        self.copy_quota.most_per_second = config.get(_COPY_QUOTA[0])
        self.fetch_quota.most_per_second = config.get(_FETCH_QUOTA[0])
        if _INDEX_BYTES in changed:
            self.indexes.resize(config.get(_INDEX_BYTES))
        for pool, key in zip(self.pools, _SIZES.values(), strict=True):
            pool.resize(config.get(key))
