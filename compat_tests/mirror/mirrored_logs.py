"""Records at a source and at its mirror: written in every codec and in transactions, read batch by batch."""

from __future__ import annotations

import os
from contextlib import closing

from confluent_kafka import Consumer, Producer, TopicPartition
from odradek.admin.session import Admin
from odradek.client.cluster import Address, Cluster
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.records.batch import iter_headers

from compat_tests.wire import WireClient

READ_COMMITTED = 1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def admin_of(bootstrap: str) -> Admin:
    host, _, port = bootstrap.rpartition(":")
    return Admin(Cluster([Address(host, int(port))], "tests", 30.0), 30.0, 30.0)


def batches(bootstrap: str, topic: str, index: int = 0) -> list[tuple[int, ...]]:
    """All of each batch but the leader's epoch, by a consumer's Fetch; the CRC covers the records."""
    found: list[tuple[int, ...]] = []
    with WireClient(bootstrap) as client:
        ends = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, -2)])]
        )
        offset = client.call(ends, 5).topics[0].partitions[0].offset
        while True:
            asked = FetchTopic(
                topic, partitions=[FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 20)]
            )
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, isolation_level=READ_COMMITTED, topics=[asked]
            )
            data = client.call(request, 11).responses[0].partitions[0]
            assert data.error_code == 0, data.error_code
            headers = [header for _, header in iter_headers(bytes(data.records or b""))]
            if not headers:
                return found
            found += [(*header[:2], *header[3:]) for header in headers]
            offset = headers[-1].next_offset


def write(bootstrap: str, topic: str, rounds: int) -> None:
    """Batches in every codec, then transactions of which every other one is aborted."""
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, "enable.idempotence": True}
        )
        for number in range(40):
            producer.produce(topic, os.urandom(40) + b"x" * 200, key=b"%d" % (number % 7), headers=[("h", None)])
        producer.flush()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-t"})
    producer.init_transactions(30)
    for number in range(rounds):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, b"%d" % number, key=b"%d" % number)
        producer.flush()
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def values(bootstrap: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    with closing(Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                assert message.error().code() == -191, message.error()  # the end of the partition
                return found
            found.append((message.offset(), message.key(), message.value()))
