"""Steps that many scenarios begin with."""

from __future__ import annotations

from typing import Any

from .scenario import BatchOf, Joined, Step, ask, batch, prepare

#: A UUID that no topic has.
NO_SUCH_ID = bytes(range(16))

#: The group of the members that join only to find out whether coordinators have a topic.
PROBE = "$probe"
#: Errors of a coordinator that is still being created.
NOT_YET = (14, 15, 16)


def topic(
    name: str = "$t", *, partitions: int = 1, configs: dict[str, str] | None = None, keep: str = "t"
) -> list[Step]:
    """Creates a topic, waits for its leaders and keeps its id."""
    wanted = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    ends = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    return [
        prepare("CreateTopics", version=7, topics=[wanted], keep={keep: "topics.0.topic_id"}),
        # A broker may show a leader in Metadata an instant before the partition takes requests.
        prepare("ListOffsets", version=7, topics=[{"name": name, "partitions": ends}], replica_id=-1, until=is_led),
    ]


def topic_of_groups(name: str = "$t", *, partitions: int = 1, keep: str = "t") -> list[Step]:
    """Creates a topic and waits until coordinators assign it. Kafka's may get it after its partitions take requests."""
    probe = {
        "group_id": PROBE,
        "member_id": f"probe-{name[1:]}",
        "member_epoch": 0,
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": [name],
        "topic_partitions": [],
    }
    return [
        *topic(name, partitions=partitions, keep=keep),
        prepare("ConsumerGroupHeartbeat", version=1, **probe, until=is_given_something),
    ]


def is_given_something(response: Any) -> bool:
    return response.error_code not in (0, *NOT_YET) or bool(
        response.assignment and response.assignment.topic_partitions
    )


def is_led(response: Any) -> bool:
    return all(part.error_code == 0 for one in response.topics for part in one.partitions)


def produce(
    records: Any, name: str = "$t", *, partition: int = 0, acks: int = -1, topic_id: Any = "@t", **more: Any
) -> dict[str, Any]:
    """The fields of a Produce request for one partition."""
    part = {"index": partition, "records": records}
    data = {"name": name, "topic_id": topic_id, "partition_data": [part]}
    return {"acks": acks, "timeout_ms": 10_000, "topic_data": [data], **more}


def produced(*values: bytes, partition: int = 0, name: str = "$t", topic_id: Any = "@t", **more: Any) -> Step:
    """Produces a batch of these values."""
    return prepare("Produce", **produce(batch(*values, **more), name, partition=partition, topic_id=topic_id))


def written(records: BatchOf | Joined, partition: int = 0) -> Step:
    return prepare("Produce", **produce(records, partition=partition))


def consume(
    offset: int = 0,
    *,
    name: str = "$t",
    topic_id: Any = "@t",
    partition: int = 0,
    max_bytes: int = 1 << 20,
    **more: Any,
) -> dict[str, Any]:
    """The fields of a Fetch request for one partition, which does not wait."""
    of_partition = {key: more.pop(key) for key in ("current_leader_epoch", "last_fetched_epoch") if key in more}
    part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes, **of_partition}
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": [{"topic": name, "topic_id": topic_id, "partitions": [part]}],
        **more,
    }


def fetched(offset: int = 0, **more: Any) -> Step:
    return ask("Fetch", **consume(offset, **more))
