"""Damage in `__consumer_offsets`: a coordinator does not serve groups from a part of their records."""

from __future__ import annotations

from pathlib import Path

import odradek
import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

from tests.hostile.damaged_files import batches_in, overwrite
from tests.server.harness.data_path import DataPath, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

CONFIG = {"offsets.topic.num.partitions": "1"}
TOPIC = "orders"


def committed(broker: odradek.Broker) -> tuple[int, int]:
    """Returns the group's error and the committed offset."""
    path = DataPath(broker)
    topics = [OffsetFetchRequestTopics(TOPIC, partition_indexes=[0])]
    response = path.client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)]), 8)
    path.close()
    (group,) = response.groups
    return group.error_code, group.topics[0].partitions[0].committed_offset if group.topics else -1


def test_damaged_offsets_are_not_taken_for_older_ones(tmp_path: Path) -> None:
    place = TopicPartition(TOPIC, 0)
    with odradek.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g", enable_auto_commit=False)
        consumer.assign([place])
        for offset in range(1, 6):
            consumer.commit({place: OffsetAndMetadata(offset, "", -1)})
        consumer.close()
        assert committed(broker) == (0, 5)
    log = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    whole = log.read_bytes()
    position, header = batches_in(log)[3]
    at = position + header.size - 3
    overwrite(log, at, bytes([whole[at] ^ 1]))

    with odradek.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        wait_until(lambda: committed(broker)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE)
        hosted = broker.server.partitions.hosted.get(("__consumer_offsets", 0))
        assert hosted is not None
        wait_until(lambda: hosted.log.damage)
        (found,) = hosted.log.damage
        assert (found.first_offset, found.next_offset) == (header.base_offset, header.next_offset)

        overwrite(log, 0, whole)
        hosted.log.healed(found.first_offset, found.next_offset)
        wait_until(lambda: committed(broker) == (0, 5), "it is loaded when the records are back")
