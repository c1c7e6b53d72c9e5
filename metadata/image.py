"""The metadata of the cluster at an offset of its log: immutable, and shared by all readers.

Every broker builds the same image by replaying the same records (`delta.py`), so two images of one offset are
equal. The maps are persistent (`immutables.Map`): the next image shares everything unchanged. They are unordered;
code that returns a map to a client sorts it.
"""

from __future__ import annotations

from typing import NamedTuple

from immutables import Map

from ..protocol.uuids import ZERO_UUID
from . import metadata_version as levels

#: A topic's name and a partition's index.
TopicPartition = tuple[str, int]
#: A topic's id and a partition's index.
TopicIdPartition = tuple[bytes, int]

#: Kafka's codes for the types of configuration resources.
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

#: The partition has no leader.
NO_LEADER = -1
#: The replica's directory was never recorded: the partition is older than KIP-858.
MIGRATING_DIRECTORY = ZERO_UUID
#: The replica is assigned to a broker, but not yet to one of its directories.
UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"
#: The directory that held the replica is lost.
LOST_DIRECTORY = bytes(15) + b"\x02"

METADATA_VERSION = "metadata.version"

#: The entity of a quota: (entity type, entity name or None for the default), sorted by type.
QuotaEntity = tuple[tuple[str, str | None], ...]
#: (resource type, resource name); the name "" is the cluster-wide default of brokers.
ConfigResource = tuple[int, str]

_NO_CONFIG: Map[str, str] = Map()


class PartitionImage(NamedTuple):
    """`directories[i]` is the log directory of `replicas[i]`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    #: 0 is recovered, 1 is recovering after an unclean election (KIP-704).
    leader_recovery_state: int = 0
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    def directory(self, broker_id: int) -> bytes:
        """Returns the log directory of this broker's replica; raises ValueError if it has none."""
        return self.directories[self.replicas.index(broker_id)]

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)


class TopicImage(NamedTuple):
    name: str
    id: bytes
    #: Index to partition; the indexes are 0 to len - 1.
    partitions: Map[int, PartitionImage]


class TopicsImage(NamedTuple):
    by_name: Map[str, TopicImage] = Map()
    by_id: Map[bytes, TopicImage] = Map()


class Endpoint(NamedTuple):
    """The address of a listener; `security_protocol` is Kafka's code (0 is PLAINTEXT)."""

    name: str
    host: str
    port: int
    security_protocol: int


class BrokerImage(NamedTuple):
    """A broker's registration. A fenced broker hosts no leaders and is not listed to clients."""

    id: int
    epoch: int
    incarnation_id: bytes
    #: Listener name to endpoint.
    listeners: Map[str, Endpoint]
    #: Feature to the (lowest, highest) level that the broker supports.
    features: Map[str, tuple[int, int]]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    #: Sorted ids of its log directories that are online.
    directories: tuple[bytes, ...] = ()
    #: Sorted ids of its cordoned directories, which get no new replicas (KIP-1066).
    cordoned_directories: tuple[bytes, ...] = ()

    @property
    def is_active(self) -> bool:
        """Returns whether the broker may lead and be in an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online_directory(self, directory: bytes) -> bool:
        """Returns whether the replica's directory is online. Unassigned directories are, and all of a broker that
        lists none (KIP-858).
        """
        if directory == LOST_DIRECTORY:
            return False
        unnamed = directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
        return unnamed or not self.directories or directory in self.directories


class ControllerImage(NamedTuple):
    id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    listeners: Map[str, Endpoint]
    features: Map[str, tuple[int, int]]


class ClusterImage(NamedTuple):
    brokers: Map[int, BrokerImage] = Map()
    controllers: Map[int, ControllerImage] = Map()


class FeaturesImage(NamedTuple):
    """Finalized levels by name, including `metadata.version`; 0 is not stored. `kraft.version` is stored in the
    quorum's log.
    """

    finalized: Map[str, int] = Map()
    zk_migration_state: int = 0

    @property
    def metadata_version(self) -> int:
        return self.finalized.get(METADATA_VERSION, levels.MINIMUM)

    def level(self, name: str) -> int:
        return self.finalized.get(name, 0)


class AclImage(NamedTuple):
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class DelegationTokenImage(NamedTuple):
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


class MetadataImage(NamedTuple):
    """The cluster at `offset`, the offset of the last record in it; -1 before the first record."""

    offset: int = -1
    epoch: int = -1
    #: The append time of the last batch in it, in ms.
    last_append_timestamp_ms: int = -1
    features: FeaturesImage = FeaturesImage()
    cluster: ClusterImage = ClusterImage()
    topics: TopicsImage = TopicsImage()
    configs: Map[ConfigResource, Map[str, str]] = Map()
    client_quotas: Map[QuotaEntity, Map[str, float]] = Map()
    #: The first unallocated producer id.
    next_producer_id: int = 0
    acls: Map[bytes, AclImage] = Map()
    #: (user, code of the mechanism) to credential.
    scram: Map[tuple[str, int], ScramCredential] = Map()
    delegation_tokens: Map[str, DelegationTokenImage] = Map()

    def topic(self, name: str) -> TopicImage | None:
        return self.topics.by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        return self.topics.by_id.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        topic = self.topics.by_name.get(name)
        return None if topic is None else topic.partitions.get(index)

    def broker(self, broker_id: int) -> BrokerImage | None:
        return self.cluster.brokers.get(broker_id)

    def config(self, resource_type: int, name: str) -> Map[str, str]:
        """Returns the configs of a resource; empty if there are none."""
        return self.configs.get((resource_type, name), _NO_CONFIG)


EMPTY_IMAGE = MetadataImage()
