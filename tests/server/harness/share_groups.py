"""Settings, topics and members of the tests of share groups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from confluent_kafka import Producer
from odradek.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from compat_tests.wire import WireClient
from tests.server.harness.share_member import Member

GROUP_RESOURCE, SET = 32, 0


SETTINGS = {
    "group.share.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
    "offsets.topic.num.partitions": 2,
    "share.coordinator.state.topic.num.partitions": 3,
}


def configure(bootstrap: str, group: str, **settings: str) -> None:
    entries = [
        AlterableConfig(name=key.replace("_", "."), config_operation=SET, value=value)
        for key, value in {"share_auto_offset_reset": "earliest", **settings}.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=entries)
    with WireClient(bootstrap) as client:
        response = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == 0, response


def produce(bootstrap: str, topic: str, count: int, batch: int = 5) -> None:
    """Produces `count` records in batches of `batch`."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1000, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
        if number % batch == batch - 1:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0


@contextlib.contextmanager
def member(bootstrap: str, name: str, topic_id: bytes, partitions: int = 1) -> Iterator[Member]:
    made = Member(bootstrap, name, name, [(topic_id, index) for index in range(partitions)])
    try:
        yield made
    finally:
        made.close()


def lag(bootstrap: str, group: str) -> int | None:
    found = described(bootstrap, group)
    return None if found is None else found[1]


def described(bootstrap: str, group: str) -> tuple[int, int] | None:
    """Returns the group's start offset and lag in partition 0; None if it has no state there."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    with WireClient(bootstrap) as client:
        topics = client.call(request, 1).groups[0].topics
    if not topics:
        return None
    partition = topics[0].partitions[0]
    return partition.start_offset, partition.lag
