"""The persister of share groups: the shards of `__share_group_state` on this broker, and requests to all of them.

- `ShareStateDriver`, `PersisterShardDriver`: a shard for each partition of `__share_group_state` that this broker
  leads. A share partition's state is in the partition that its key hashes to: "group:topic id:partition".
- `Persister`: sends requests to the persister, on this broker or another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...coordinator.result import GroupRequest, Record
from ...coordinator.share_state import (
    FORMS,
    PersisterConfig,
    PersisterLoader,
    PersisterShard,
    ShareKey,
    ShareStateRequest,
    TopicsChanged,
    encode_record,
    error_response,
)
from ...metadata.image import SHARE_GROUP_STATE_TOPIC, MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.share_group_state import WriteShareGroupStateRequest
from ...protocol.records.compression import Compression
from ...protocol.schema import Message, ResponseCallback
from ...protocol.uuids import uuid_to_text
from ..runtime.clock import Clock
from ..runtime.subsystem import MetadataCache
from .coordinator_driver import CoordinatorDriver
from .shard_driver import Client, Pending, ShardDriver, gather

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...metadata.delta import MetadataDelta
    from ..config.broker_config import BrokerConfig
    from ..controller.cluster_view import Leaders
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.subsystem import Lazy
    from .topic_creation import TopicCreation


def coordinator_key(key: ShareKey) -> str:
    """Returns the coordinator key as clients of FindCoordinator send it."""
    return f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"


@dataclass(slots=True)
class PersisterCounters:
    """Counters of all shards of the broker. They only grow."""

    writes: int = 0


class ShareStateDriver(CoordinatorDriver["PersisterShardDriver"]):
    """The coordinators of share-group state on this broker."""

    topic = SHARE_GROUP_STATE_TOPIC
    partitions_key = "share.coordinator.state.topic.num.partitions"
    replication_key = "share.coordinator.state.topic.replication.factor"

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Partitions,
        topic_creation: Lazy[TopicCreation],
        metadata: MetadataCache,
    ) -> None:
        super().__init__(config, clock, partitions, topic_creation)
        self._metadata = metadata
        self._pruning: asyncio.TimerHandle | None = None
        self.counters = PersisterCounters()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.topics.deleted and self._shards:
            changed = TopicsChanged(image, frozenset(delta.topics.deleted))
            for shard in self._shards.values():
                shard.topics_changed(changed)
        super().apply(delta, image)

    def stop(self) -> None:
        if self._pruning is not None:
            self._pruning.cancel()
        super().stop()

    def _topic_configs(self) -> dict[str, str]:
        config = self._config
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(config.get("share.coordinator.state.topic.segment.bytes")),
            "min.insync.replicas": str(config.get("share.coordinator.state.topic.min.isr")),
            "retention.ms": "-1",
        }

    def _not_here(self, request: Message, version: int) -> Message:
        return error_response(request, version, ErrorCode.NOT_COORDINATOR)

    def _new_shard(self, partition: HostedPartition) -> PersisterShardDriver:
        config = self._config
        if self._pruning is None:
            self._plan_pruning()
        return PersisterShardDriver(
            partition,
            PersisterConfig(
                config.get("share.coordinator.snapshot.update.records.per.snapshot"),
                config.get("share.coordinator.cold.partition.snapshot.interval.ms"),
            ),
            self._clock,
            config.get("share.coordinator.write.timeout.ms"),
            Compression(config.get("share.coordinator.state.topic.compression.codec")),
            self._metadata,
            self.counters,
        )

    # Pruning: records that newer snapshots make redundant are removed from the logs.

    def _plan_pruning(self) -> None:
        interval_ms = self._config.get("share.coordinator.state.topic.prune.interval.ms")
        self._pruning = asyncio.get_running_loop().call_later(interval_ms / 1000, self._prune)

    def _prune(self) -> None:
        self._plan_pruning()
        for shard in list(self._shards.values()):
            shard.prune()


class PersisterShardDriver(ShardDriver[PersisterShard]):
    """Drives the shard of one partition of `__share_group_state`, and removes redundant records from its log."""

    _encode: Callable[[Record], tuple[bytes, bytes | None]] = staticmethod(encode_record)
    _error_response: Callable[[Message, int, ErrorCode], Message] = staticmethod(error_response)

    def __init__(
        self,
        partition: HostedPartition,
        config: PersisterConfig,
        clock: Callable[[], int],
        commit_timeout_ms: int,
        compression: Compression,
        metadata: MetadataCache,
        counters: PersisterCounters,
    ) -> None:
        super().__init__(partition, config, clock, commit_timeout_ms, compression)
        self._metadata = metadata
        self._counters = counters
        #: Topics deleted while the log was loading.
        self._deleted: frozenset[bytes] = frozenset()

    def topics_changed(self, changed: TopicsChanged) -> None:
        """Applies topic deletions. While the log is loading, they are kept until the shard is loaded."""
        if self._shard is None:
            self._deleted |= changed.deleted
        else:
            self.tell(changed)

    def prune(self) -> None:
        shard, partition = self._shard, self.partition
        if shard is None:
            return
        redundant = shard.redundant()
        if redundant is not None and redundant.below > partition.log_start_offset:
            partition.when_committed(redundant.committed, partial(self._cut, shard, redundant.below))

    def _cut(self, shard: PersisterShard, below: int, error: int) -> None:
        """Removes the redundant records, unless the shard was dropped meanwhile: the log may then hold other records
        where its snapshots were.
        """
        if not error and self._shard is shard:
            self.partition.advance_log_start_offset(below)

    def _new_loader(self) -> PersisterLoader:
        return PersisterLoader(self._config, self.partition.name)

    def _loaded(self, loader: PersisterLoader) -> None:
        super()._loaded(loader)
        deleted, self._deleted = self._deleted, frozenset()
        self.tell(TopicsChanged(self._metadata.newest, deleted))

    def _message(self, pending: Pending, version: int, client: Client) -> GroupRequest:
        assert self._shard is not None, "the shard is not loaded"
        self._shard.state.image = self._metadata.newest
        self._counters.writes += type(pending.request) is WriteShareGroupStateRequest
        return GroupRequest(pending, pending.request, version)


# ---- requests to the persister

#: As in Kafka's persister: the number of attempts, and the backoff between them, which grows each time.
MOST_TRIES = 5
FIRST_BACKOFF_MS = 100
REQUEST_TIMEOUT_MS = 30_000
LATEST = 99
_RETRIED = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Asker(NamedTuple):
    """This broker as the client of its own shards."""

    client_id: str | None = None
    client_host: str = ""


ASKER = Asker()


class Persister:
    """Sends requests to the coordinators of share-group state and joins their responses.

    One request may name many share partitions. Each part goes to the broker that leads the partition's part of
    `__share_group_state`, and the responses are joined into one. Retriable errors are retried for a limited time.
    """

    def __init__(
        self, shards: Lazy[ShareStateDriver], metadata: MetadataCache, leaders: Leaders, peers: Lazy[Peers]
    ) -> None:
        self._shards = shards
        self._metadata = metadata
        self._leaders = leaders
        self._peers = peers

    def ask(self, request: ShareStateRequest, reply: ResponseCallback) -> None:
        """Sends the request. `reply` gets one response for all share partitions, in the order of the request."""
        driver = self._shards()
        if self._metadata.image.topic(driver.topic) is None:
            driver.ensure_topic(partial(self._ask_each, request, reply))
        else:
            self._ask_each(request, reply)

    def _ask_each(self, request: ShareStateRequest, reply: ResponseCallback) -> None:
        if len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
            self._ask_one(request, MOST_TRIES, reply)
            return
        gather([partial(self._ask_one, one, MOST_TRIES) for one in singles(request)], partial(joined, request, reply))

    def _ask_one(self, request: ShareStateRequest, tries: int, reply: ResponseCallback) -> None:
        driver = self._shards()
        key = coordinator_key(key_of(request))
        index = driver.partition_for(key)
        done = partial(self._answered, request, tries - 1, reply)
        endpoint = self._leaders.other_leader(driver.topic, index)
        if endpoint is None:
            driver.submit(key, request, LATEST, ASKER, done)
        else:
            self._peers().send(endpoint, request, done, timeout_ms=REQUEST_TIMEOUT_MS, purpose="share groups")

    def _answered(self, request: ShareStateRequest, tries: int, reply: ResponseCallback, response: Any) -> None:
        if response is None:
            response = error_response(request, LATEST, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif len(response.results) != 1 or len(response.results[0].partitions) != 1:
            # A shard on another broker returns an empty response to a request that names no group.
            response = error_response(request, LATEST, ErrorCode.UNKNOWN_SERVER_ERROR)
        error = response.results[0].partitions[0].error_code
        if error in _RETRIED and tries:
            backoff_ms = FIRST_BACKOFF_MS << (MOST_TRIES - 1 - tries)
            asyncio.get_running_loop().call_later(backoff_ms / 1000, self._ask_one, request, tries, reply)
        else:
            reply(response)


def submit_here(
    driver: ShareStateDriver, request: ShareStateRequest, version: int, client: Client, reply: ResponseCallback
) -> None:
    """Handles a request that another broker sends to this broker's shards."""
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        reply(FORMS[type(request)].response())
        return
    questions = [partial(driver.submit, coordinator_key(key_of(one)), one, version, client) for one in singles(request)]
    gather(questions, partial(joined, request, reply))


def reject_all(request: ShareStateRequest, error: ErrorCode, reply: ResponseCallback) -> None:
    """Answers each partition of a request with an error."""
    joined(request, reply, [error_response(single, LATEST, error) for single in singles(request)])


def singles(request: ShareStateRequest) -> list[ShareStateRequest]:
    """Splits the request into one request per share partition."""
    form = FORMS[type(request)]
    return [
        type(request)(group_id=request.group_id, topics=[form.topic(topic_id=topic.topic_id, partitions=[partition])])
        for topic in request.topics
        for partition in topic.partitions
    ]


def key_of(single: ShareStateRequest) -> ShareKey:
    (topic,) = single.topics
    return ShareKey(single.group_id, topic.topic_id, topic.partitions[0].partition)


def joined(request: Message, reply: ResponseCallback, responses: list[Any]) -> None:
    form = FORMS[type(request)]
    results: dict[bytes, Any] = {}
    for response in responses:
        (one,) = response.results
        if one.topic_id not in results:
            results[one.topic_id] = form.result(topic_id=one.topic_id)
        results[one.topic_id].partitions += one.partitions
    reply(form.response(results=list(results.values())))
