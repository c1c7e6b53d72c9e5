"""The coordinators on this broker: one shard for each partition of their topic that this broker leads.

A group belongs to the partition of `__consumer_offsets` that its id hashes to. The leader of that partition coordinates
the group. The same holds for a transactional id and `__transaction_state` (transaction_driver.py). The topic is created
when a client first requests such a coordinator.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...metadata.image import GROUP_METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.records.compression import Compression
from ...protocol.schema import Message
from ..runtime.late_imports import GROUP_MODULES, LateImports, is_loaded

# The state machines of all group kinds are imported with the first shard only: a broker without groups starts without
# them.
if TYPE_CHECKING:
    from ...coordinator.groups.state import GroupCounters
    from ...coordinator.result import GroupsConfig
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ...protocol.schema import ResponseCallback
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition, Marker
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.subsystem import Lazy, MetadataCache
    from .group_shard_driver import GroupShardDriver
    from .shard_driver import Client, ShardDriver
    from .topic_creation import TopicCreation

#: A group's record must fit in a batch of the topic together with its id and the batch header.
RECORD_OVERHEAD_BYTES = 1_024
#: The prefix of the broker's configuration keys that group shards use.
DYNAMIC_PREFIX = "group."
#: The number of group ids whose partition is cached; the hash takes a microsecond or two.
REMEMBERED_GROUPS = 4_000
#: Longer ids are hashed each time: a client may send ids of 32,767 bytes.
MAX_REMEMBERED_CHARS = 255
#: Followers fetch what is handed over within milliseconds; a stop waits no longer for one that does not.
HAND_OVER_S = 0.5
#: How far the monotonic clock may be ahead of the time of day before it slows down.
TOLERATED_LEAD_MS = 1_000


#: The driver of one shard.
DriverT = TypeVar("DriverT", bound="ShardDriver[Any]")


class CoordinatorDriver(Generic[DriverT]):
    """The common part of all coordinators: ids that hash to partitions, and shards that follow the leadership of
    partitions.
    """

    #: The topic, and the broker's configuration keys for its partitions and replicas.
    topic: str
    partitions_key: str
    replication_key: str

    def __init__(
        self, config: BrokerConfig, clock: Clock, partitions: Partitions, topic_creation: Lazy[TopicCreation]
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._topic_creation = topic_creation
        self._shards: dict[int, DriverT] = {}
        self._clock = MonotonicClock(clock.now_ms)
        self._partition_count: int = config.get(self.partitions_key)
        #: Group or transactional id -> partition of the topic.
        self._partition_of: dict[str, int] = {}

    # Requests.

    def submit(self, key: str, request: Message, version: int, client: Client, reply: ResponseCallback) -> None:
        """Has the shard that owns `key`, a group or a transactional id, handle `request`.

        `reply` is called once, immediately or later. Requests for several ids must be split (`partition_for`): all ids
        must belong to one partition.
        """
        shard = self._shards.get(self.partition_for(key))
        if shard is None:
            reply(self._not_here(request, version))
        else:
            shard.submit(request, version, client, reply)

    def submit_to_all(self, request: Message, version: int, client: Client, reply: Callable[[list[Any]], None]) -> None:
        """Has every shard on this broker handle `request`. `reply` gets all responses."""
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
        """Returns the partition of the topic that stores the id."""
        found = self._partition_of.get(group_id)
        if found is None:
            found = java_hash(group_id) % self._partition_count
            if len(group_id) <= MAX_REMEMBERED_CHARS:
                if len(self._partition_of) >= REMEMBERED_GROUPS:
                    self._partition_of.clear()
                self._partition_of[group_id] = found
        return found

    def by_partition(self, ids: Iterable[str]) -> list[list[str]]:
        """Groups the ids by partition: the ids in one list can go to one shard in one request."""
        found: dict[int, list[str]] = {}
        for group_id in ids:
            found.setdefault(self.partition_for(group_id), []).append(group_id)
        return list(found.values())

    def clock_moved(self) -> None:
        """Has every shard do what a clock that was set makes due."""
        for shard in self.shards():
            shard.clock_moved()

    def restart_clock(self) -> None:
        """Begins at the time of day, which may be an earlier one: only without shards."""
        self._clock.restart()

    def shards(self) -> list[DriverT]:
        return list(self._shards.values())

    # The topic.

    def ensure_topic(self, done: Callable[[], None]) -> None:
        """Creates the topic. `done` is called when the topic is published on this broker or could not be created."""
        from ...protocol.messages.topics import CreatableTopic, CreatableTopicConfig  # which most starts do not need

        config = self._config
        topic = CreatableTopic(
            name=self.topic,
            num_partitions=config.get(self.partitions_key),
            replication_factor=config.get(self.replication_key),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in self._topic_configs().items()],
        )
        self._topic_creation().create(topic, done)

    # Metadata.

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Loads shards for the partitions that this broker now leads and drops the other shards. Called after the
        partitions' roles have changed.
        """
        if not delta.topics:
            return
        topic = image.topic(self.topic)
        if topic is not None and len(topic.partitions) != self._partition_count:
            self._partition_count = len(topic.partitions)
            self._partition_of.clear()
        self.take_up(image)
        deleted = {gone.name: topic_id for topic_id, gone in delta.topics.deleted.items()}
        if deleted:
            self._topics_deleted(deleted)

    def take_up(self, image: MetadataImage) -> None:
        """Makes the shards of the partitions that are led here, and drops the others."""
        topic = image.topic(self.topic)
        led: dict[int, HostedPartition] = {}
        for index in topic.partitions if topic is not None else ():
            partition = self._partitions.get((self.topic, index))
            if partition is not None and partition.is_leader and not partition.offline:
                led[index] = partition
        for index, shard in list(self._shards.items()):
            # The epoch differs: another broker may have led in between.
            if led.get(index) is not shard.partition or shard.epoch != led[index].leader_epoch:
                del self._shards[index]
                shard.resign()
        new = sorted(led.keys() - self._shards.keys())
        if new and self._awaits_imports():
            return
        for index in new:
            shard = self._shards[index] = self._new_shard(led[index])
            shard.background = self._partitions.background
            shard.load()

    # Overridden by each coordinator.

    def _awaits_imports(self) -> bool:
        """Returns True if no shard can be made yet; `take_up` is called again when it can."""
        return False

    def _topic_configs(self) -> dict[str, str]:
        raise NotImplementedError

    def _new_shard(self, partition: HostedPartition) -> DriverT:
        raise NotImplementedError

    def _not_here(self, request: Message, version: int) -> Message:
        """Returns the response to a request for a shard that this broker does not have."""
        raise NotImplementedError

    def _topics_deleted(self, deleted: dict[str, bytes]) -> None:
        """Handles the deletion of topics, name -> id."""

    def stop(self) -> None:
        """Drops all shards. Waiting clients get an error that makes them look up the coordinator again."""
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.resign()


class GroupDriver(CoordinatorDriver["GroupShardDriver"]):
    """The group coordinators' interface for the rest of the broker. See docs/development/architecture.md."""

    topic = GROUP_METADATA_TOPIC
    partitions_key = "offsets.topic.num.partitions"
    replication_key = "offsets.topic.replication.factor"

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Partitions,
        topic_creation: Lazy[TopicCreation],
        metadata: MetadataCache,
        late_imports: LateImports,
    ) -> None:
        super().__init__(config, clock, partitions, topic_creation)
        self._late_imports = late_imports
        self._metadata = metadata
        #: The parts of the metadata that coordinators follow. The first group that is assigned partitions of topics adds
        #: the topics.
        self.interest: set[Part] = {"internal_topics", "deleted_topics", "features"}
        #: Whether the shards' modules have been imported; None before that begins.
        self._imports: bool | None = None
        config.subscribe(self._config_changed)

    @cached_property
    def counters(self) -> GroupCounters:
        from ...coordinator.groups.state import GroupCounters

        return GroupCounters()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self._shards and "topics" in self.interest and delta.topics:
            from ...coordinator.result import MetadataChanged

            changed = MetadataChanged(image, _changed_topics(delta))
            for shard in self._shards.values():
                shard.metadata_changed(changed)
        super().apply(delta, image)

    def _awaits_imports(self) -> bool:
        """The first shards wait until their modules are imported. Whatever becomes of that, it is not tried again."""
        if self._imports is None:
            self._imports = is_loaded(GROUP_MODULES)
            if not self._imports:
                self._late_imports.when_loaded(GROUP_MODULES, self._imported)
        return not self._imports

    def _imported(self) -> None:
        self._imports = True
        self.take_up(self._metadata.image)

    def _config_changed(self, names: frozenset[str]) -> None:
        if any(name.startswith(DYNAMIC_PREFIX) for name in names):
            for shard in self._shards.values():
                shard.reconfigure(self._config_for(shard.partition))

    def _config_for(self, partition: HostedPartition) -> GroupsConfig:
        from .group_shard_driver import groups_config

        return groups_config(self._config, partition.rules.max_message_bytes - RECORD_OVERHEAD_BYTES)

    async def hand_over(self) -> None:
        """Has all shards write what the next coordinators are to know, before a planned stop moves their partitions. Returns
        when that is committed, at the latest after HAND_OVER_S: without it sessions start anew.
        """
        waiting, committed = set(self._shards), asyncio.Event()

        def done(index: int, error: int) -> None:
            waiting.discard(index)
            if not waiting:
                committed.set()

        for index, shard in list(self._shards.items()):
            shard.hand_over(partial(done, index))
        if waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(HAND_OVER_S):
                    await committed.wait()

    def end_transaction(self, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a marker into a partition of the topic and applies it to the shard. `done` gets an error code, or 0."""
        shard = self._shards.get(index)
        if shard is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            shard.end_transaction(marker, done)

    def _topics_deleted(self, deleted: dict[str, bytes]) -> None:
        if not self._shards:
            return
        from ...coordinator.result import TopicsDeleted

        message = TopicsDeleted(deleted)
        for shard in self._shards.values():
            shard.topics_deleted(message)

    def _topic_configs(self) -> dict[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.get("offsets.topic.segment.bytes")),
        }

    def _not_here(self, request: Message, version: int) -> Message:
        from ...coordinator.groups.shard import error_response, validate
        from .group_shard_driver import groups_config

        error = validate(groups_config(self._config), request, version)
        return error_response(request, version, error or ErrorCode.NOT_COORDINATOR)

    def _new_shard(self, partition: HostedPartition) -> GroupShardDriver:
        from .group_shard_driver import GroupShardDriver

        config = self._config
        return GroupShardDriver(
            partition,
            self._config_for(partition),
            self._clock,
            config.get("offsets.commit.timeout.ms"),
            Compression(config.get("offsets.topic.compression.codec")),
            self._metadata,
            self.interest,
            self.counters,
        )


def _changed_topics(delta: MetadataDelta) -> frozenset[str]:
    """Returns the names of topics that were created, deleted, or have changed partitions."""
    changed = {topic.before.name for topic in delta.topics.changed.values()}
    return frozenset(changed | {topic.name for topic in delta.topics.deleted.values()})


class MonotonicClock:
    """The time of day in ms as a clock that never goes back and never stands still. Requires a running event loop.

    It times sessions and rebalances. When the time of day is set back, the clock runs at half speed until the time of
    day has caught up. When the time of day is set forward, the clock follows immediately.
    """

    __slots__ = ("_last_ms", "_loop_time", "_seen_at", "_wall_ms")

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._loop_time = asyncio.get_running_loop().time
        self._wall_ms = wall_ms
        self.restart()

    def restart(self) -> None:
        """Begins anew at the time of day."""
        self._last_ms = float(self._wall_ms())
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
    """Computes Java's `Utils.abs(text.hashCode())`, which uses UTF-16 units and 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for unit in units[1::2] if text.isascii() else struct.unpack(f">{len(units) // 2}H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    if value >= 1 << 31:
        value -= 1 << 32
    return 0 if value == -(1 << 31) else abs(value)
