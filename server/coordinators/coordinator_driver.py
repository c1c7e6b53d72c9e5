"""The coordinators on this broker: one shard for each partition of their topic that it leads.

A group belongs to the partition of `__consumer_offsets` that its id hashes to, and is coordinated by whoever leads that;
likewise a transactional id and `__transaction_state` (transaction_driver.py). A topic is made when a client first asks for
such a coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...coordinator.common.result import GroupsConfig, MetadataChanged, TopicsDeleted
from ...coordinator.groups.base.counters import GroupCounters
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.records.compression import Compression
from ...protocol.schema import Message
from ...storage.files import advice, check_room
from ..runtime.internal_topics import GROUP_METADATA_TOPIC
from .pending_requests import Client

# The machines of all kinds of groups are only imported for the first shard: a broker without groups starts without them.
if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta
    from ...metadata.image import MetadataImage
    from ..broker import BrokerServer
    from ..partitions.hosted_partition import HostedPartition
    from .group_shard_driver import GroupShardDriver
    from .transaction_markers import Marker

log = logging.getLogger("odradek.groups")

CREATE_TOPICS_VERSION = 7
CREATE_TOPICS_TIMEOUT_MS = 30_000
#: A group's record must fit in a batch of the topic with its id and the batch's own header.
RECORD_OVERHEAD_BYTES = 1_024
#: Of the broker's keys that shards of groups go by.
DYNAMIC_PREFIX = "group."
#: Group ids whose partition is remembered; the hash takes a microsecond or two.
REMEMBERED_GROUPS = 100_000
#: How far the steady clock may be ahead of the time of day before it slows down.
TOLERATED_LEAD_MS = 1_000


class CoordinatorDriver:
    """What coordinators have in common: ids that hash to partitions, shards that come and go with their leadership."""

    #: The topic, and the keys of the broker for its partitions and replicas.
    topic: str
    partitions_key: str
    replication_key: str

    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker
        self._shards: dict[int, Any] = {}
        self._clock = MonotonicClock(broker.now_ms)
        self._partition_count: int = broker.config.get(self.partitions_key)
        self._partitions: dict[str, int] = {}
        #: Who waits for the topic to be made.
        self._waiting_for_topic: list[Callable[[], None]] = []

    # Requests.

    def submit(self, key: str, request: Message, version: int, client: Client, reply: Callable[[Any], None]) -> None:
        """Has the shard that owns `key`, a group or a transactional id, handle `request`.

        `reply` is called once, now or later. Requests for several ids must be split (`partition_for`): all must be of one
        partition.
        """
        shard = self._shards.get(self.partition_for(key))
        if shard is None:
            reply(self._not_here(request, version))
        else:
            shard.submit(request, version, client, reply)

    def submit_to_all(self, request: Message, version: int, client: Client, reply: Callable[[list[Any]], None]) -> None:
        """Has every shard here handle `request`; `reply` gets all responses."""
        count, responses = len(self._shards), list[Message]()

        def gather(response: Message) -> None:
            responses.append(response)
            if len(responses) == count:
                reply(responses)

        if not count:
            reply([])
        for shard in list(self._shards.values()):
            shard.submit(request, version, client, gather)

    def partition_for(self, group_id: str) -> int:
        """The partition of the topic that keeps the id."""
        found = self._partitions.get(group_id)
        if found is None:
            if len(self._partitions) >= REMEMBERED_GROUPS:
                self._partitions.clear()
            found = self._partitions[group_id] = java_hash(group_id) % self._partition_count
        return found

    def shards(self) -> list[Any]:
        return list(self._shards.values())

    # The topic.

    def ensure_topic(self, done: Callable[[], None]) -> None:
        """Makes the topic; `done` is called when it is published here, or could not be made."""
        self._waiting_for_topic.append(done)
        if len(self._waiting_for_topic) > 1:
            return
        config = self._broker.config
        try:
            check_room(config.metadata_log_dir)
        except OSError as error:
            words = f"{self.topic} is not made: {error}{advice(error)}"
            self._broker.lines.log(log, logging.ERROR, "", ("no room", self.topic), words)
            self._tell_waiting()
            return
        topic = CreatableTopic(
            name=self.topic,
            num_partitions=config.get(self.partitions_key),
            replication_factor=config.get(self.replication_key),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in self._topic_configs().items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TOPICS_TIMEOUT_MS)
        self._broker.controller.submit(request, CREATE_TOPICS_VERSION, self._topic_made)

    def _topic_made(self, response: CreateTopicsResponse) -> None:
        for result in response.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                words = ErrorCode(result.error_code).name
                log.error("%s could not be made: %s (%s)", self.topic, words, result.error_message)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        waiting, self._waiting_for_topic = self._waiting_for_topic, []
        for done in waiting:
            done()

    # Metadata.

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Takes up the partitions that are led here from now on, and drops those that are not. After their roles."""
        if not delta.topics:
            return
        topic = image.topic(self.topic)
        if topic is not None and len(topic.partitions) != self._partition_count:
            self._partition_count = len(topic.partitions)
            self._partitions.clear()
        self.take_up(image)
        deleted = {gone.name: topic_id for topic_id, gone in delta.topics.deleted.items()}
        if deleted:
            self._topics_deleted(deleted)

    def take_up(self, image: MetadataImage) -> None:
        """Makes the shards of the partitions that are led here, and drops the others."""
        topic = image.topic(self.topic)
        led: dict[int, HostedPartition] = {}
        for index in topic.partitions if topic is not None else ():
            partition = self._broker.partitions.get((self.topic, index))
            if partition is not None and partition.is_leader and not partition.offline:
                led[index] = partition
        for index, shard in list(self._shards.items()):
            # Of another epoch, another broker may have led in between.
            if led.get(index) is not shard.partition or shard.epoch != led[index].leader_epoch:
                del self._shards[index]
                shard.resign()
        for index in sorted(led.keys() - self._shards.keys()):
            shard = self._shards[index] = self._new_shard(led[index])
            shard.load()

    # What each coordinator has of its own.

    def _topic_configs(self) -> dict[str, str]:
        raise NotImplementedError

    def _new_shard(self, partition: HostedPartition) -> Any:
        raise NotImplementedError

    def _not_here(self, request: Message, version: int) -> Message:
        """The answer to a request for a shard that this broker does not have."""
        raise NotImplementedError

    def _topics_deleted(self, deleted: dict[str, bytes]) -> None:
        """Topics that are no more, name -> id."""

    def stop(self) -> None:
        """Tells everybody who waits to look for another coordinator."""
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.resign()


class GroupDriver(CoordinatorDriver):
    """The face of the groups for the rest of the broker, see docs/architecture.md."""

    topic = GROUP_METADATA_TOPIC
    partitions_key = "offsets.topic.num.partitions"
    replication_key = "offsets.topic.replication.factor"

    def __init__(self, broker: BrokerServer) -> None:
        super().__init__(broker)
        self._image = broker.image
        self.counters = GroupCounters()
        broker.config.subscribe(self._config_changed)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._image = image
        changed = MetadataChanged(image, _changed_topics(delta))
        for shard in self._shards.values():
            shard.metadata_changed(changed)
        super().apply(delta, image)

    def _config_changed(self, names: frozenset[str]) -> None:
        if any(name.startswith(DYNAMIC_PREFIX) for name in names):
            for shard in self._shards.values():
                shard.reconfigure(self._config_for(shard.partition))

    def _config_for(self, partition: HostedPartition) -> GroupsConfig:
        from .group_configs import groups_config

        return groups_config(self._broker.config, partition.rules.max_message_bytes - RECORD_OVERHEAD_BYTES)

    def end_transaction(self, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a marker into a partition of the topic, and has its shard follow; `done` gets an error code, or 0."""
        shard = self._shards.get(index)
        if shard is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            shard.end_transaction(marker, done)

    def _topics_deleted(self, deleted: dict[str, bytes]) -> None:
        message = TopicsDeleted(deleted)
        for shard in self._shards.values():
            shard.topics_deleted(message)

    def _topic_configs(self) -> dict[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._broker.config.get("offsets.topic.segment.bytes")),
        }

    def _not_here(self, request: Message, version: int) -> Message:
        from ...coordinator.groups.error_responses import refused
        from ...coordinator.groups.validation import refuse
        from .group_configs import groups_config

        error = refuse(groups_config(self._broker.config), request, version)
        return refused(request, error or ErrorCode.NOT_COORDINATOR)

    def _new_shard(self, partition: HostedPartition) -> GroupShardDriver:
        from .group_shard_driver import GroupShardDriver

        config = self._broker.config
        return GroupShardDriver(
            partition,
            self._config_for(partition),
            self._clock,
            config.get("offsets.commit.timeout.ms"),
            Compression(config.get("offsets.topic.compression.codec")),
            self._image,
            self.counters,
        )


def _changed_topics(delta: MetadataDelta) -> frozenset[str]:
    """Names of topics that came, went or have other partitions."""
    if not delta.topics:
        return frozenset()
    changed = {topic.before.name for topic in delta.topics.changed.values()}
    return frozenset(changed | {topic.name for topic in delta.topics.deleted.values()})


class MonotonicClock:
    """The time of day in ms that never goes back and never stands still. For a loop that runs.

    Sessions and rebalances are timed by it. When the time of day is set back, this goes on at half its speed until the
    other has come after; set forward, this follows at once.
    """

    __slots__ = ("_last_ms", "_loop_time", "_seen_at", "_wall_ms")

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._loop_time = asyncio.get_running_loop().time
        self._wall_ms = wall_ms
        self._last_ms = float(wall_ms())
        self._seen_at = self._loop_time()

    def __call__(self) -> int:
        at, wall_ms = self._loop_time(), self._wall_ms()
        passed_ms = (at - self._seen_at) * 1000
        self._seen_at = at
        if self._last_ms > wall_ms + TOLERATED_LEAD_MS:
            passed_ms /= 2
        self._last_ms = max(self._last_ms + passed_ms, wall_ms)
        return int(self._last_ms)


def java_hash(text: str) -> int:
    """`Utils.abs(text.hashCode())` of Java, which counts in UTF-16 units and 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    if value >= 1 << 31:
        value -= 1 << 32
    return 0 if value == -(1 << 31) else abs(value)
