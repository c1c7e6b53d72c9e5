"""Versions of requests in which behaviour begins that no field of the schema tells: `version in` each of these ranges.

`Message.versions_with` has the versions of a field. What each version of an API adds is in the contract of
its message.
"""

from __future__ import annotations

from types import MappingProxyType

from .apis import api_named

#: Clients accept features whose lowest level is 0 (KIP-1022).
API_VERSIONS_WITH_LEVEL_ZERO = api_named("ApiVersions").versions_from(4)
#: Batches may be compressed with zstd (KIP-110).
PRODUCE_WITH_ZSTD = api_named("Produce").versions_from(7)
#: Clients know TRANSACTION_ABORTABLE (KIP-890).
PRODUCE_WITH_ABORTABLE = api_named("Produce").versions_from(11)
TXN_OFFSET_COMMIT_WITH_ABORTABLE = api_named("TxnOffsetCommit").versions_from(4)
#: Clients use transaction version 2 (KIP-890): a write to a partition, or a commit of a group, adds it to the transaction.
PRODUCE_ADDS_PARTITIONS = api_named("Produce").versions_from(12)
TXN_OFFSET_COMMIT_ADDS_GROUPS = api_named("TxnOffsetCommit").versions_from(5)
#: Clients know KAFKA_STORAGE_ERROR (KIP-112).
FETCH_WITH_STORAGE_ERROR = api_named("Fetch").versions_from(6)
#: Clients know OFFSET_NOT_AVAILABLE (KIP-207).
LIST_OFFSETS_WITH_NOT_AVAILABLE = api_named("ListOffsets").versions_from(5)
#: Timestamps that stand for places of a log: the latest and the earliest offset, the largest timestamp (KIP-734), the first
#: offset on the disk (KIP-405), the last in the remote store (KIP-1005), and the first that waits for it (KIP-1023).
LIST_OFFSETS_WITH_TIMESTAMP = MappingProxyType(
    {
        timestamp: api_named("ListOffsets").versions_from(first)
        for timestamp, first in {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}.items()
    }
)
#: Requests may name topics by id. The schema has ids from version 10 on.
METADATA_BY_TOPIC_ID = api_named("Metadata").versions_from(12)
#: Clients know LISTENER_NOT_FOUND.
METADATA_WITH_LISTENER_NOT_FOUND = api_named("Metadata").versions_from(6)
#: Clients support member epochs (KIP-848), and GROUP_ID_NOT_FOUND.
OFFSET_COMMIT_WITH_MEMBER_EPOCHS = api_named("OffsetCommit").versions_from(9)
#: Clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319).
TXN_OFFSET_COMMIT_WITH_GROUP_ERRORS = api_named("TxnOffsetCommit").versions_from(6)
#: Key type 2: the coordinator of a share partition (KIP-932).
FIND_COORDINATOR_WITH_SHARE_KEYS = api_named("FindCoordinator").versions_from(6)
#: Clients get their member id before they join (KIP-394).
JOIN_GROUP_WITH_MEMBER_ID = api_named("JoinGroup").versions_from(4)
#: Members generate their own ids (KIP-1082).
CONSUMER_HEARTBEAT_WITH_OWN_MEMBER_ID = api_named("ConsumerGroupHeartbeat").versions_from(1)
#: Clients know MISSING_CLIENT_TAGS.
STREAMS_HEARTBEAT_WITH_CLIENT_TAGS = api_named("StreamsGroupHeartbeat").versions_from(1)
#: Clients know TOPIC_DELETION_DISABLED.
DELETE_TOPICS_WITH_DELETION_DISABLED = api_named("DeleteTopics").versions_from(3)
#: Clients know PRODUCER_FENCED (KIP-588); by the API's name.
WITH_PRODUCER_FENCED = MappingProxyType(
    {
        name: api_named(name).versions_from(first)
        for name, first in {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}.items()
    }
)
