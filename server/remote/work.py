"""The parts that the remote logs of a broker share: the store, its indexes, threads, quotas, counters and events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ...metadata.image import TOPIC_RESOURCE
from ...tiers.index_cache import IndexCache
from ..runtime.thread_pools import ThreadPool
from .metadata_log import PublishFailed
from .remote_counters import RemoteCounters
from .remote_quota import RemoteQuota
from .upload_sweep import UploadSweep

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...metadata.configs.key_types import IntegerKey
    from ...metadata.image import MetadataImage
    from ...tiers.cache import Applied
    from ...tiers.segment_metadata import RemoteLogMetadata
    from ...tiers.store import RemoteStore
    from ..controller.leaders import Leaders
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node
    from .metadata_log import MetadataLog

_SIZES: dict[str, IntegerKey] = {
    "copiers": "remote.log.manager.copier.thread.pool.size",
    "expirers": "remote.log.manager.expiration.thread.pool.size",
    "readers": "remote.log.reader.threads",
    "followers": "remote.log.manager.follower.thread.pool.size",
}
_COPY_QUOTA: tuple[IntegerKey, IntegerKey, IntegerKey] = (
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.copy.quota.window.num",
    "remote.log.manager.copy.quota.window.size.seconds",
)
_FETCH_QUOTA: tuple[IntegerKey, IntegerKey, IntegerKey] = (
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.fetch.quota.window.num",
    "remote.log.manager.fetch.quota.window.size.seconds",
)
_INDEX_BYTES: Final = "remote.log.index.file.cache.total.size.bytes"


class TopicConfig(NamedTuple):
    """Configs of a topic, and the number of changes of the broker's configuration. Equal ones give the same values."""

    overrides: Mapping[str, str]
    changes: int


class RemoteWork:
    """The parts that the remote logs of a broker share."""

    def __init__(
        self,
        node: Node,
        leaders: Leaders,
        peers: Lazy[Peers],
        events: MetadataLog,
        store: RemoteStore,
        has_commits_until: Callable[[int], bool],
    ) -> None:
        """`has_commits_until`: returns whether the image has everything that was committed so many ms ago."""
        self.config = config = node.config
        self.clock = node.clock
        self.leaders = leaders
        self.peers = peers
        self.background = node.background
        self.events = events
        self.store = store
        self.has_commits_until = has_commits_until
        self.node_id = node.identity.node_id
        self._metadata = node.metadata
        self._loop = asyncio.get_running_loop()
        self.indexes = IndexCache(store, config.get(_INDEX_BYTES))
        self.copiers, self.expirers, self.readers, self.followers = (
            ThreadPool(f"remote-{name}", config.get(key)) for name, key in _SIZES.items()
        )
        self.uploads = UploadSweep(store, self.expirers)
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
