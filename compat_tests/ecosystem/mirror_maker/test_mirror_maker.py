"""MirrorMaker 2 between the broker under test and another Apache Kafka: both ways at once, with group offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import DEADLINE_S, Running, java
from compat_tests.oracle import ApacheKafka

ROUND = 1000
CONFIG = """
clusters=here,kafka
here.bootstrap.servers={here}
kafka.bootstrap.servers={there}
here->kafka.enabled=true
kafka->here.enabled=true
topics={topic}
groups={group}
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
offset.storage.partitions=2
status.storage.partitions=2
refresh.topics.interval.seconds=2
refresh.groups.interval.seconds=2
sync.topic.configs.interval.seconds=2
sync.group.offsets.enabled=true
sync.group.offsets.interval.seconds=1
emit.checkpoints.interval.seconds=1
emit.heartbeats.interval.seconds=1
offset.lag.max=0
consumer.auto.offset.reset=earliest
dedicated.mode.enable.internal.rest=false
"""


@pytest.fixture
def other(java_tools: None, tmp_path: Path) -> Iterator[str]:
    """Starts another Apache Kafka for the test, and yields its address."""
    with ApacheKafka(tmp_path / "apache") as broker:
        yield broker.bootstrap


def read(bootstrap: str, topic: str, group: str, count: int) -> list[str]:
    """Reads so many records as a member of a group, and commits."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[str] = []
    while len(found) < count:
        message = consumer.poll(DEADLINE_S)
        assert message is not None and message.error() is None, (topic, len(found))
        found.append((message.value() or b"").decode())
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def retention(bootstrap: str, topic: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_configs([resource])[resource].result(30)
    return str(described["retention.ms"].value)


@pytest.mark.timeout(600)
def test_records_configs_and_group_offsets_are_mirrored_both_ways(
    bootstrap: str, other: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group = unique("mirrored")[:40], unique("readers")[:40]
    ways = {"here": (bootstrap, other), "kafka": (other, bootstrap)}
    for name, (near, _) in ways.items():
        reference_client.create(near, topic, 2, retention_ms="7654321000")
        reference_client.produce(near, topic, (f"{name}-{number}" for number in range(ROUND)), map(str, range(ROUND)))
        read(near, topic, group, ROUND)
    config = tmp_path / "mm2.properties"
    config.write_text(CONFIG.format(here=bootstrap, there=other, topic=topic, group=group))
    flags = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
    command = java("mirror_maker", "org.apache.kafka.connect.mirror.MirrorMaker", str(config), jvm=flags)
    for part in (1, 2):  # stopped and started in between
        with Running(command, tmp_path / "mm2.log") as mirror:
            for name, (_, far) in ways.items():
                mirrored = f"{name}.{topic}"
                mirror.wait_for(
                    lambda far=far, mirrored=mirrored, part=part: (
                        len(reference_client.records(far, mirrored)) >= part * ROUND
                    ),
                    f"{part * ROUND} records in {mirrored}",
                )
                mirror.wait_for(
                    lambda far=far, mirrored=mirrored, part=part: offsets(far, group, mirrored) == ROUND,
                    f"offsets of {group} on {mirrored}",
                )
                assert retention(far, mirrored) == "7654321000"
            mirror.stop()
        if part == 1:
            for name, (near, _) in ways.items():
                reference_client.produce(
                    near, topic, (f"more-{name}-{number}" for number in range(ROUND)), map(str, range(ROUND))
                )
    for name, (near, far) in ways.items():
        original, copy = (
            reference_client.records(where, where_topic)
            for where, where_topic in ((near, topic), (far, f"{name}.{topic}"))
        )
        assert [(one.partition, one.key, one.value) for one in copy] == [
            (one.partition, one.key, one.value) for one in original
        ]
        # On the other cluster the group continues from its offsets.
        assert sorted(read(far, f"{name}.{topic}", group, ROUND)) == sorted(
            f"more-{name}-{number}" for number in range(ROUND)
        )


def offsets(bootstrap: str, group: str, topic: str) -> int:
    return sum(offset for (name, _), offset in reference_client.committed(bootstrap, group).items() if name == topic)
