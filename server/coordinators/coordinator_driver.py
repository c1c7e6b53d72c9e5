"""The coordinators on this broker: one shard for each partition of their topic that this broker leads.

A group belongs to the partition of `__consumer_offsets` that its id hashes to. The leader of that partition coordinates
the group. The same holds for a transactional id and `__transaction_state` (transaction_driver.py). The topic is created
when a client first requests such a coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ...protocol.schema import Message, Request
from .java_hash import java_hash
from .monotonic_clock import MonotonicClock

if TYPE_CHECKING:
    from ...metadata.configs.key_types import IntegerKey
    from ...metadata.delta import MetadataDelta
    from ...metadata.image import MetadataImage
    from ...protocol.schema import ResponseCallback
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from .open_requests import Client
    from .shard_driver import ShardDriver
    from .topic_creation import TopicCreation

#: A group's record must fit in a batch of the topic together with its id and the batch header.
GROUP_RECORD_OVERHEAD_BYTES = 1_024
#: The prefix of the broker's configuration keys that group shards use.
DYNAMIC_PREFIX = "group."
#: The number of group ids whose partition is cached; the hash takes a microsecond or two.
REMEMBERED_GROUPS = 4_000
#: Longer ids are hashed each time: a client may send ids of 32,767 bytes.
MAX_REMEMBERED_CHARS = 255
#: Followers fetch what is handed over within milliseconds; a stop waits no longer for one that does not.
HAND_OVER_S = 0.5
#: The driver of one shard.
DriverT = TypeVar("DriverT", bound="ShardDriver[Any]")


class CoordinatorDriver(Generic[DriverT]):
    """The common part of all coordinators: ids that hash to partitions, and shards that follow the leadership of
    partitions.
    """

    #: The topic, and the broker's configuration keys for its partitions and replicas.
    topic: str
    partitions_key: ClassVar[IntegerKey]
    replication_key: ClassVar[IntegerKey]

    def __init__(
        self, config: BrokerConfig, clock: Clock, partitions: Partitions, topic_creation: Lazy[TopicCreation]
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._topic_creation = topic_creation
        self._shards: dict[int, DriverT] = {}
        self._clock = MonotonicClock(clock.now_ms)
        self._partition_count = config.get(self.partitions_key)
        #: Group or transactional id -> partition of the topic.
        self._partition_of: dict[str, int] = {}

    # Requests.

    def submit(self, key: str, request: Request, version: int, client: Client, reply: ResponseCallback) -> None:
        """Has the shard that owns `key`, a group or a transactional id, handle `request`.

        `reply` is called once, immediately or later. Requests for several ids must be split (`partition_for`): all ids
        must belong to one partition.
        """
        shard = self._shards.get(self.partition_for(key))
        if shard is None:
            reply(self._not_here(request, version))
        else:
            shard.submit(request, version, client, reply)

    def submit_to_all(self, request: Request, version: int, client: Client, reply: Callable[[list[Any]], None]) -> None:
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

    def partition_for(self, key: str) -> int:
        """Returns the partition of the topic that stores the group or transactional id `key`."""
        found = self._partition_of.get(key)
        if found is None:
            found = java_hash(key) % self._partition_count
            if len(key) <= MAX_REMEMBERED_CHARS:
                if len(self._partition_of) >= REMEMBERED_GROUPS:
                    self._partition_of.clear()
                self._partition_of[key] = found
        return found

    def by_partition(self, ids: Iterable[str]) -> list[list[str]]:
        """Groups the ids by partition: the ids in one list can go to one shard in one request."""
        found: dict[int, list[str]] = {}
        for key in ids:
            found.setdefault(self.partition_for(key), []).append(key)
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
        from ...protocol.messages.create_topics import (  # which most starts do not need
            CreatableTopic,
            CreatableTopicConfig,
        )

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

    def _not_here(self, request: Request, version: int) -> Message:
        """Returns the response to a request for a shard that this broker does not have."""
        raise NotImplementedError

    def _topics_deleted(self, deleted: dict[str, bytes]) -> None:
        """Handles the deletion of topics, name -> id."""

    def stop(self) -> None:
        """Drops all shards. Waiting clients get an error that makes them look up the coordinator again."""
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.resign()
