"""Bounds of requests with many items: they are handled in portions, in slices of their own, or rejected.

An item is an element of an array anywhere in a request. Every API is in one of three lists:

- PORTIONINGS: its items are independent of each other, so the request is handled a portion at a time.
- SLICED: the handler itself yields to the event loop.
- All others decide on all items at once, so they may have DEFAULT_ITEM_LIMIT of them.

ITEM_LIMITS has the limits that differ. Some are of portioned APIs, in which one item (a topic, a resource) may hold
many more that are decided at once. A request with more items than its limit ends its connection, with one line in the
log. No client comes near the limits: they are what such a decision can process in the time budget of a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ...replication.controller.result import MAX_RECORDS_PER_REQUEST
from .portions import EACH, ONCE, TOGETHER, Portioning

#: Limit for any request: Kafka's own for one array, and some for the others. Decoded items take some 300 bytes each.
MAX_REQUEST_ITEMS = 1_200_000
DEFAULT_ITEM_LIMIT = 10_000

_resource = attrgetter("resource_type", "resource_name")
_name = attrgetter("name")
_name_and_id = attrgetter("name", "topic_id")
_index = attrgetter("partition_index")


def _entity(entry: Any) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def _topics(inner: str = "partitions", answered: str = "partitions", repeats: int = EACH) -> tuple[Portioning, ...]:
    return (Portioning(("topics", inner), ("topics", answered), repeats),)


_SHARE_STATE = (Portioning(("topics", "partitions"), ("results", "partitions")),)

#: The first row of an API that has items in the request applies: their place depends on the version.
PORTIONINGS: dict[str, tuple[Portioning, ...]] = {
    "AddPartitionsToTxn": (Portioning(("transactions",), ("results_by_transaction",)),),
    "AlterClientQuotas": (Portioning(("entries",), ("entries",), TOGETHER, _entity, first=8),),
    "AlterConfigs": (Portioning(("resources",), ("responses",), TOGETHER, _resource, first=8),),
    "AlterPartition": _topics(),
    "AlterPartitionReassignments": (Portioning(("topics", "partitions"), ("responses", "partitions")),),
    "ConsumerGroupDescribe": (Portioning(("group_ids",), ("groups",), ONCE, first=8),),
    "CreateAcls": (Portioning(("creations",), ("results",)),),
    "CreatePartitions": (Portioning(("topics",), ("results",), TOGETHER, _name, first=8),),
    "CreateTopics": (Portioning(("topics",), ("topics",), TOGETHER, _name, first=8),),
    "DeleteAcls": (Portioning(("filters",), ("filter_results",), first=1),),
    "DeleteGroups": (Portioning(("groups_names",), ("results",), ONCE),),
    "DeleteRecords": _topics(),
    "DeleteShareGroupState": _SHARE_STATE,
    "DeleteTopics": (
        Portioning(("topics",), ("responses",), TOGETHER, _name_and_id),
        Portioning(("topic_names",), ("responses",), TOGETHER),
    ),
    "DescribeConfigs": (Portioning(("resources",), ("results",), ONCE, _resource, first=1),),
    "DescribeGroups": (Portioning(("groups",), ("groups",), ONCE, first=8),),
    "DescribeProducers": _topics("partition_indexes", repeats=ONCE),
    "DescribeShareGroupOffsets": (Portioning(("groups", "topics", "partitions"), ("groups", "topics", "partitions")),),
    "DescribeTransactions": (Portioning(("transactional_ids",), ("transaction_states",), ONCE, first=8),),
    "ElectLeaders": (Portioning(("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),),
    "FindCoordinator": (Portioning(("coordinator_keys",), ("coordinators",)),),
    "IncrementalAlterConfigs": (Portioning(("resources",), ("responses",), TOGETHER, _resource, first=8),),
    "InitializeShareGroupState": _SHARE_STATE,
    "LeaveGroup": (Portioning(("members",), ("members",)),),
    "ListOffsets": (Portioning(("topics", "partitions"), ("topics", "partitions"), TOGETHER, _index),),
    "ListPartitionReassignments": _topics("partition_indexes"),
    "OffsetCommit": _topics(),
    "OffsetDelete": _topics(),
    "OffsetFetch": (
        Portioning(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
        Portioning(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    "OffsetForLeaderEpoch": _topics(),
    "Produce": (Portioning(("topic_data", "partition_data"), ("responses", "partition_responses")),),
    "ReadShareGroupState": _SHARE_STATE,
    "ReadShareGroupStateSummary": _SHARE_STATE,
    "ShareGroupDescribe": (Portioning(("group_ids",), ("groups",), ONCE, first=8),),
    "StreamsGroupDescribe": (Portioning(("group_ids",), ("groups",), ONCE, first=8),),
    "TxnOffsetCommit": _topics(),
    "WriteShareGroupState": _SHARE_STATE,
    "WriteTxnMarkers": (Portioning(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")),),
}

SLICED = frozenset({"DescribeTopicPartitions", "Fetch", "Metadata"})

#: Kafka refuses what takes more than 10,000 records of the metadata log: a request with more items cannot succeed.
_CONTROLLER_LIMIT = 20_000

ITEM_LIMITS: dict[str, int] = {
    "AddPartitionsToTxn": 10_000,
    "AlterClientQuotas": _CONTROLLER_LIMIT,
    "AlterConfigs": _CONTROLLER_LIMIT,
    "AlterPartition": 100_000,  # a broker has that many partitions at most, each with a few replicas
    "AlterPartitionReassignments": 100_000,
    "BrokerRegistration": 1000,
    "ControllerRegistration": 1000,
    "CreateAcls": _CONTROLLER_LIMIT,
    "CreatePartitions": _CONTROLLER_LIMIT,
    "CreateTopics": _CONTROLLER_LIMIT,
    "DescribeConfigs": 100_000,
    "IncrementalAlterConfigs": _CONTROLLER_LIMIT,
    "WriteShareGroupState": 50_000,
    # All groups of one coordinator, with the partitions of each: a tool asks for fewer by far. Their answer is built as a
    # whole, at some 150 bytes an item.
    "OffsetFetch": 200_000,
    # A tool asks for the replicas that it moves.
    "DescribeLogDirs": 100_000,
    # A member names the partitions that it owns.
    "ConsumerGroupHeartbeat": 20_000,
    "StreamsGroupHeartbeat": 20_000,
    # Batches of acknowledged records.
    "ShareAcknowledge": 20_000,
    "ShareFetch": 20_000,
}


def _partitions_to_create(request: Any) -> int:
    return sum(len(topic.assignments) or max(topic.num_partitions, 1) for topic in request.topics)


def _configs_to_alter(request: Any) -> int:
    return sum(len(resource.configs) for resource in request.resources)


#: The number of records that a request makes the controller write. Beyond MAX_RECORDS_PER_REQUEST the controller refuses it
#: as a whole, as Kafka does, so it must see it as a whole.
ASKED_RECORDS: dict[str, Callable[[Any], int]] = {
    "AlterClientQuotas": lambda request: sum(len(entry.ops) for entry in request.entries),
    "AlterConfigs": _configs_to_alter,
    "CreateAcls": lambda request: len(request.creations),
    "CreatePartitions": lambda request: sum(topic.count for topic in request.topics),
    "CreateTopics": _partitions_to_create,
    "IncrementalAlterConfigs": _configs_to_alter,
}


def is_rejected_whole(api_name: str, request: Any) -> bool:
    count = ASKED_RECORDS.get(api_name)
    return count is not None and count(request) > MAX_RECORDS_PER_REQUEST


def item_limit(api_name: str) -> int:
    if api_name in ITEM_LIMITS:
        return ITEM_LIMITS[api_name]
    return MAX_REQUEST_ITEMS if api_name in PORTIONINGS or api_name in SLICED else DEFAULT_ITEM_LIMIT
