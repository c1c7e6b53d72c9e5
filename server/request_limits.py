"""How requests with many items are bounded: handled in portions, in slices of their own, or refused.

An item is an element of an array anywhere in a request. Every API is in one of three lists:

- PORTIONINGS: its items stand each for itself, so the request is handled a portion at a time.
- SLICED: the handler takes turns by itself.
- All others decide on all items at once, so they may have ITEM_LIMITS items, or DEFAULT_ITEM_LIMIT. A request with more ends
  its connection. No client comes near: the limits are what such a decision can have in the budget of a turn.
"""

from __future__ import annotations

from operator import attrgetter

from .portions import EACH, ONCE, TOGETHER, Portioning

#: Of any request: Kafka's own limit for one array, and some for the others. What is decoded takes some 300 bytes an item.
MAX_REQUEST_ITEMS = 1_200_000
DEFAULT_ITEM_LIMIT = 10_000

_resource = attrgetter("resource_type", "resource_name")
_name = attrgetter("name")
_name_and_id = attrgetter("name", "topic_id")
_index = attrgetter("partition_index")


def _topics(inner: str = "partitions", answered: str = "partitions", repeats: int = EACH) -> tuple[Portioning, ...]:
    return (Portioning(("topics", inner), ("topics", answered), repeats),)


_SHARE_STATE = (Portioning(("topics", "partitions"), ("results", "partitions")),)

#: Of the rows of an API the first is taken that has items in the request: its place depends on the version.
PORTIONINGS: dict[str, tuple[Portioning, ...]] = {
    "AlterConfigs": (Portioning(("resources",), ("responses",), TOGETHER, _resource, first=8),),
    "AlterPartition": _topics(),
    "AlterPartitionReassignments": (Portioning(("topics", "partitions"), ("responses", "partitions")),),
    "ConsumerGroupDescribe": (Portioning(("group_ids",), ("groups",), ONCE, first=8),),
    "CreatePartitions": (Portioning(("topics",), ("results",), TOGETHER, _name, first=8),),
    "CreateTopics": (Portioning(("topics",), ("topics",), TOGETHER, _name, first=8),),
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

ITEM_LIMITS: dict[str, int] = {
    # A broker that starts says where all of its replicas are.
    "DescribeLogDirs": 100_000,
    # A member names the partitions that it owns.
    "ConsumerGroupHeartbeat": 20_000,
    "StreamsGroupHeartbeat": 20_000,
    # Batches of acknowledged records.
    "ShareAcknowledge": 20_000,
    "ShareFetch": 20_000,
}


def item_limit(api_name: str) -> int:
    if api_name in PORTIONINGS or api_name in SLICED:
        return MAX_REQUEST_ITEMS
    return ITEM_LIMITS.get(api_name, DEFAULT_ITEM_LIMIT)
