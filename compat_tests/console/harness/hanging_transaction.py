"""A transaction that hangs, and its topic."""

from __future__ import annotations

import time

from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.batches import leader_of
from compat_tests.cli.commands import PRODUCE_WITHOUT_VERIFICATION, odradek_command
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

TOPIC, PRODUCER = "estates", 888_000


def write_hanging(bootstrap: str, *more: str) -> None:
    """Creates the topic, with `more` options, and writes a batch of a transaction that no coordinator has. Brokers must not
    verify transactions.
    """
    odradek_command("topic", "create", TOPIC, "--partitions", "1", *more, "-b", bootstrap)
    hour_ago = int(time.time() * 1000) - 3_600_000
    producer = {"producer_id": PRODUCER, "producer_epoch": 1, "base_sequence": 0, "transactional": True}
    batch = encode_batch([Record(0, hour_ago, None, b"lost")], **producer)  # type: ignore[arg-type]
    data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]

    def written() -> bool:
        with WireClient(leader_of(bootstrap, TOPIC, 0)) as client:
            response = client.call(ProduceRequest("gone", -1, 10_000, data), PRODUCE_WITHOUT_VERIFICATION)
        return bool(response.responses[0].partition_responses[0].error_code == 0)

    eventually(written, what="the batch is written")
