"""Records at a source and at its mirror: written in every codec and in transactions, read batch by batch."""

from __future__ import annotations

import os
from contextlib import closing, suppress

from confluent_kafka import Consumer, Producer, TopicPartition
from odradek.admin.session import Admin
from odradek.client.cluster import Address, Cluster
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.records.batch import iter_headers

from compat_tests.wire import WireClient

READ_COMMITTED = 1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def admin_of(bootstrap: str) -> Admin:
    addresses = [Address(host, int(port)) for host, _, port in (one.rpartition(":") for one in bootstrap.split(","))]
    return Admin(Cluster(addresses, "tests", 30.0), 30.0, 30.0)


def leader_address(bootstrap: str, topic: str, index: int) -> str:
    """The address of the broker that leads a partition. Raises AssertionError where there is none, and OSError where no
    broker responds.
    """
    response = _described(bootstrap, topic)
    partitions = {one.partition_index: one for one in response.topics[0].partitions}
    assert index in partitions, f"{topic}-{index} does not exist"
    addresses = {one.node_id: f"{one.host}:{one.port}" for one in response.brokers}
    leader = partitions[index].leader_id
    assert leader in addresses, f"{topic}-{index} has no leader"
    return addresses[leader]


def _described(bootstrap: str, topic: str) -> MetadataResponse:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    for address in bootstrap.split(","):
        with suppress(OSError), WireClient(address) as client:
            response: MetadataResponse = client.call(request, 8)
            return response
    raise ConnectionRefusedError(f"none of {bootstrap} responds")


def batches(bootstrap: str, topic: str, index: int = 0) -> list[tuple[int, ...]]:
    """All of each batch but the leader's epoch, by a consumer's Fetch; the CRC covers the records."""
    found: list[tuple[int, ...]] = []
    with WireClient(leader_address(bootstrap, topic, index)) as client:
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


def values(bootstrap: str, topic: str, index: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    with closing(Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(topic, index, 0)])
        found = []
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                assert message.error().code() == -191, message.error()  # the end of the partition
                return found
            found.append((message.offset(), message.key(), message.value()))
