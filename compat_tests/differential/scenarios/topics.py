"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import NO_SUCH_ID, fetched, produced, topic


def create(
    *, name: str = "$t", partitions: int = 1, replicas: int = 1, validate_only: bool = False, **more: Any
) -> Step:
    wanted = {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}
    return ask("CreateTopics", topics=[wanted], timeout_ms=10_000, validate_only=validate_only)


def assigned(*replicas: list[int], start: int = 0) -> list[dict[str, Any]]:
    return [{"partition_index": n + start, "broker_ids": one} for n, one in enumerate(replicas)]


def grow(count: int, *, name: str = "$t", assignments: Any = None, validate_only: bool = False) -> Step:
    wanted = {"name": name, "count": count, "assignments": assignments}
    return ask("CreatePartitions", topics=[wanted], timeout_ms=10_000, validate_only=validate_only)


def delete_records(offset: int, *, name: str = "$t", partition: int = 0) -> Step:
    wanted = {"partition_index": partition, "offset": offset}
    return ask("DeleteRecords", topics=[{"name": name, "partitions": [wanted]}], timeout_ms=10_000)


def delete(*names: str, ids: tuple[Any, ...] = ()) -> Step:
    states = [{"name": name} for name in names] + [{"name": None, "topic_id": one} for one in ids]
    return ask("DeleteTopics", topics=states, topic_names=list(names), timeout_ms=10_000)


def described(*names: str, limit: int = 2000, cursor: Any = None) -> Step:
    topics = [{"name": name} for name in names]
    return ask("DescribeTopicPartitions", topics=topics, response_partition_limit=limit, cursor=cursor)


CREATE = [
    scenario("CreateTopics", "a topic is created", create(partitions=3)),
    scenario("CreateTopics", "the broker's defaults are taken", create(partitions=-1, replicas=-1), versions="4+"),
    scenario(
        "CreateTopics", "defaults before version 4 are refused", create(partitions=-1, replicas=-1), versions="0-3"
    ),
    scenario("CreateTopics", "a topic that is there", topic(), create()),
    scenario("CreateTopics", "a trial creates nothing", create(validate_only=True), create()),
    scenario("CreateTopics", "a trial of a topic that is there", topic(), create(validate_only=True)),
    scenario("CreateTopics", "no partitions", create(partitions=0)),
    scenario("CreateTopics", "a negative count of partitions", create(partitions=-2)),
    scenario("CreateTopics", "no replicas", create(replicas=0)),
    scenario("CreateTopics", "more replicas than brokers", create(replicas=3)),
    scenario(
        "CreateTopics", "replicas placed by hand", create(partitions=-1, replicas=-1, assignments=assigned([0], [0]))
    ),
    scenario(
        "CreateTopics",
        "replicas on a broker that is not there",
        create(partitions=-1, replicas=-1, assignments=assigned([9])),
    ),
    scenario(
        "CreateTopics", "a replica twice on a broker", create(partitions=-1, replicas=-1, assignments=assigned([0, 0]))
    ),
    scenario("CreateTopics", "an empty list of replicas", create(partitions=-1, replicas=-1, assignments=assigned([]))),
    scenario(
        "CreateTopics",
        "partitions by hand that leave a hole",
        create(partitions=-1, replicas=-1, assignments=assigned([0], start=1)),
    ),
    scenario(
        "CreateTopics", "replicas by hand and by number", create(partitions=2, replicas=1, assignments=assigned([0]))
    ),
    scenario(
        "CreateTopics",
        "names that no topic may have",
        *(create(name=name) for name in ("", ".", "..", "a b", "x" * 250, "ä", "a/b")),
    ),
    scenario("CreateTopics", "names that collide in metrics", create(name="$a.b"), create(name="$a_b")),
    scenario(
        "CreateTopics",
        "a topic with configs of its own",
        create(
            configs=[{"name": "retention.ms", "value": "1000"}, {"name": "cleanup.policy", "value": "compact,delete"}]
        ),
    ),
    scenario("CreateTopics", "a config that is not known", create(configs=[{"name": "no.such.config", "value": "1"}])),
    scenario(
        "CreateTopics",
        "values that a config may not have",
        *(
            create(name=f"$c{n}", configs=[{"name": name, "value": value}])
            for n, (name, value) in enumerate(
                (
                    ("retention.ms", "soon"),
                    ("retention.ms", "-2"),
                    ("cleanup.policy", "burn"),
                    ("segment.bytes", "1"),
                    ("compression.type", "rar"),
                    ("min.insync.replicas", "0"),
                    ("retention.ms", None),
                    ("unclean.leader.election.enable", "maybe"),
                    ("segment.ms", ""),
                    ("message.timestamp.type", "createTime"),
                    ("max.message.bytes", "-1"),
                )
            )
        ),
    ),
    scenario(
        "CreateTopics",
        "the same name twice in one request",
        ask(
            "CreateTopics", topics=[{"name": "$t", "num_partitions": 1, "replication_factor": 1}] * 2, timeout_ms=10_000
        ),
    ),
    scenario(
        "CreateTopics",
        "good and bad topics in one request",
        ask(
            "CreateTopics",
            timeout_ms=10_000,
            topics=[
                {"name": "$good", "num_partitions": 1, "replication_factor": 1},
                {"name": "$bad", "num_partitions": 0, "replication_factor": 1},
            ],
        ),
    ),
    scenario("CreateTopics", "no topics", ask("CreateTopics", topics=[], timeout_ms=10_000)),
    scenario("CreateTopics", "the topic of the metadata log", create(name="__cluster_metadata")),
]
DELETE = [
    scenario(
        "DeleteTopics",
        "a topic is deleted",
        topic(),
        delete("$t"),
        prepare(
            "Metadata",
            topics=[{"name": "$t"}],
            allow_auto_topic_creation=False,
            until=lambda a: a.topics[0].error_code == 3,
        ),
        delete("$t"),
    ),
    scenario("DeleteTopics", "a topic that is not there", delete("$none")),
    scenario("DeleteTopics", "by id", topic(), delete(ids=("@t",)), versions="6+"),
    scenario("DeleteTopics", "by an id that no topic has", delete(ids=(NO_SUCH_ID,)), versions="6+"),
    scenario(
        "DeleteTopics",
        "by name and id at once",
        topic(),
        ask("DeleteTopics", topics=[{"name": "$t", "topic_id": "@t"}], timeout_ms=10_000),
        versions="6+",
    ),
    scenario(
        "DeleteTopics",
        "by neither name nor id",
        ask("DeleteTopics", topics=[{"name": None}], timeout_ms=10_000),
        versions="6+",
    ),
    scenario("DeleteTopics", "the same name twice", topic(), delete("$t", "$t")),
    scenario("DeleteTopics", "by name and by id in two places", topic(), delete("$t", ids=("@t",)), versions="6+"),
    scenario("DeleteTopics", "one that is there and one that is not", topic(), delete("$t", "$none")),
    scenario("DeleteTopics", "an empty name", delete("")),
    scenario("DeleteTopics", "nothing", delete()),
]
GROW = [
    scenario(
        "CreatePartitions",
        "a topic grows",
        topic(),
        grow(3),
        ask("Metadata", topics=[{"name": "$t"}], until=lambda a: len(a.topics[0].partitions) == 3),
    ),
    scenario("CreatePartitions", "to the number that it has", topic(partitions=2), grow(2)),
    scenario("CreatePartitions", "to fewer", topic(partitions=2), grow(1), grow(0), grow(-1)),
    scenario("CreatePartitions", "a topic that is not there", grow(3, name="$none")),
    scenario(
        "CreatePartitions", "a trial", topic(), grow(3, validate_only=True), ask("Metadata", topics=[{"name": "$t"}])
    ),
    scenario("CreatePartitions", "placed by hand", topic(), grow(2, assignments=[{"broker_ids": [0]}])),
    scenario(
        "CreatePartitions", "placed on a broker that is not there", topic(), grow(2, assignments=[{"broker_ids": [9]}])
    ),
    scenario(
        "CreatePartitions",
        "placed by hand, too few and too many",
        topic(),
        grow(3, assignments=[{"broker_ids": [0]}]),
        grow(2, assignments=[{"broker_ids": [0]}, {"broker_ids": [0]}]),
    ),
    scenario(
        "CreatePartitions",
        "another number of replicas by hand",
        topic(),
        grow(2, assignments=[{"broker_ids": [0, 0]}]),
        grow(2, assignments=[{"broker_ids": []}]),
    ),
    scenario(
        "CreatePartitions",
        "the same name twice",
        topic(),
        ask("CreatePartitions", topics=[{"name": "$t", "count": 2, "assignments": None}] * 2, timeout_ms=10_000),
    ),
    scenario("CreatePartitions", "nothing", ask("CreatePartitions", topics=[], timeout_ms=10_000)),
]
RECORDS = [
    scenario(
        "DeleteRecords",
        "up to an offset",
        topic(),
        produced(b"a", b"b", b"c"),
        delete_records(2),
        fetched(2),
        fetched(1),
    ),
    scenario("DeleteRecords", "up to the end", topic(), produced(b"a", b"b"), delete_records(-1), delete_records(-1)),
    scenario(
        "DeleteRecords",
        "to an offset before the start",
        topic(),
        produced(b"a", b"b"),
        delete_records(2),
        delete_records(1),
        delete_records(0),
    ),
    scenario("DeleteRecords", "beyond the end", topic(), produced(b"a"), delete_records(2), delete_records(-2)),
    scenario("DeleteRecords", "in an empty partition", topic(), delete_records(0), delete_records(-1)),
    scenario(
        "DeleteRecords",
        "where no topic or partition is",
        topic(),
        delete_records(0, name="$none"),
        delete_records(0, partition=5),
    ),
    scenario(
        "DeleteRecords",
        "a compacted topic does not allow it",
        topic(configs={"cleanup.policy": "compact"}),
        delete_records(0),
    ),
    scenario(
        "DeleteRecords",
        "a compacted and deleted topic allows it",
        topic(configs={"cleanup.policy": "compact,delete"}),
        delete_records(0),
    ),
    scenario(
        "DeleteRecords",
        "an internal topic does not allow it",
        prepare("FindCoordinator", key="g", coordinator_keys=["g"]),
        delete_records(0, name="__consumer_offsets"),
    ),
]
DESCRIBE = [
    scenario(
        "DescribeTopicPartitions",
        "topics in the order of their names",
        topic("$b", keep="b"),
        topic("$a", partitions=2, keep="a"),
        described("$b", "$a"),
    ),
    scenario(
        "DescribeTopicPartitions",
        "a limit gives a cursor to go on from",
        topic("$a", partitions=3, keep="a"),
        topic("$b", partitions=2, keep="b"),
        described("$a", "$b", limit=2),
        described("$a", "$b", limit=2, cursor={"topic_name": "$a", "partition_index": 2}),
        described("$a", "$b", limit=2, cursor={"topic_name": "$b", "partition_index": 1}),
    ),
    scenario("DescribeTopicPartitions", "a topic that is not there", topic(), described("$t", "$none")),
    scenario(
        "DescribeTopicPartitions",
        "a cursor before and after all topics",
        topic(),
        described("$t", cursor={"topic_name": "zzz", "partition_index": 0}),
        described("$t", cursor={"topic_name": "$t", "partition_index": 7}),
        described("$t", cursor={"topic_name": "$t", "partition_index": -1}),
    ),
    scenario(
        "DescribeTopicPartitions",
        "limits of none and less",
        topic(partitions=2),
        described("$t", limit=0),
        described("$t", limit=-1),
    ),
    scenario(
        "DescribeTopicPartitions", "a name twice and an empty name", topic(), described("$t", "$t"), described("")
    ),
]
SCENARIOS = [*CREATE, *DELETE, *GROW, *RECORDS, *DESCRIBE]
