"""Tiers of a real Apache Kafka broker with LocalTieredStorage: Odradek reads its tier, and it reads Odradek's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.tiers.cache import Applied, RemoteLogMetadataCache
from odradek.tiers.checked_reads import remote_index
from odradek.tiers.events import decode_event, encode_event
from odradek.tiers.folder_store import FolderStore
from odradek.tiers.index_cache import IndexCache
from odradek.tiers.leader_tasks import LeaderLog, copy_segment, plan_copies
from odradek.tiers.metadata_topic import MetadataPartition, metadata_partition
from odradek.tiers.reading import (
    aborted_transactions,
    find_by_timestamp,
    next_segment_with_aborted,
    read_segment,
    segment_at,
)
from odradek.tiers.segment_metadata import (
    METADATA_TOPIC,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from odradek.tiers.store import PartType

from compat_tests.java.fetch import TIERS, home
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import eventually

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

_METADATA_PARTITIONS = 3
_TIER = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
Read = tuple[int, bytes | None]


class TieredApache(ApacheKafka):
    """A broker with LocalTieredStorage on its class path."""

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("-cp") + 1
        command[at] = os.pathsep.join((command[at], str(home(TIERS) / "*")))
        return command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(scope="module")
def apache(java_tools: None, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    properties = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": _TIER,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.manager.task.interval.ms": "300",
        "log.retention.check.interval.ms": "300",
        "log.initial.task.delay.ms": "300",
        "rsm.config.dir": str(folder),
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": str(_METADATA_PARTITIONS),
    }
    with TieredApache(tmp_path_factory.mktemp("apache"), properties) as broker:
        assert isinstance(broker, TieredApache)
        yield broker


def create(apache: ApacheKafka, topic: str, **configs: str) -> TopicIdPartition:
    admin = AdminClient({"bootstrap.servers": apache.bootstrap})
    wanted = {"remote.storage.enable": "true", "segment.bytes": str(1 << 20), **configs}
    admin.create_topics([NewTopic(topic, 1, 1, config=wanted)])[topic].result(60)

    def described() -> TopicIdPartition | None:
        try:
            from confluent_kafka import TopicCollection

            found = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
        except KafkaException:
            return None
        halves = (found.topic_id.get_most_significant_bits(), found.topic_id.get_least_significant_bits())
        topic_id = b"".join((half % (1 << 64)).to_bytes(8, "big") for half in halves)
        return TopicIdPartition(topic_id, topic, 0)

    return eventually(described, what="the topic exists")


def write(apache: ApacheKafka, topic: str, transactions: int) -> None:
    """Writes transactions of 100 records of 10 kB; every second one is aborted."""
    producer = Producer({"bootstrap.servers": apache.bootstrap, "transactional.id": f"of-{topic}", "linger.ms": 5})
    producer.init_transactions(60)
    for number in range(transactions):
        producer.begin_transaction()
        for record in range(100):
            producer.produce(topic, b"%d:%d:" % (number, record) + os.urandom(10_000), partition=0)
        producer.flush(60)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(60)


def consumed(apache: ApacheKafka, topic: str, partition: int = 0, **settings: str) -> list[Read]:
    """Returns (offset, value) of all records."""
    options = {"bootstrap.servers": apache.bootstrap, "group.id": "x", "enable.auto.commit": False}
    consumer = Consumer({**options, "enable.partition.eof": True, **settings})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[Read] = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None, f"no end of {topic} after {len(found)} records"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            found.append((message.offset(), message.value()))
    finally:
        consumer.close()


def followed(apache: ApacheKafka, partition: TopicIdPartition) -> MetadataPartition:
    """Reads the metadata of a partition, as a broker of Odradek does."""
    number = metadata_partition(partition, _METADATA_PARTITIONS)
    metadata = MetadataPartition(number)
    metadata.follow(partition, 0)
    for offset, value in consumed(apache, METADATA_TOPIC, number):
        metadata.consume(offset, value)
    assert not metadata.damaged
    return metadata


def read_committed(store: FolderStore, cache: RemoteLogMetadataCache, epochs: list[tuple[int, int]]) -> list[Read]:
    """Returns (offset, value) of all records in the tier that a consumer with read_committed gets."""
    indexes, at, found = IndexCache(store, 1 << 20), 0, []

    def following(offset: int) -> RemoteLogSegmentMetadata | None:
        return next_segment_with_aborted(cache, epochs, offset)

    while (segment := segment_at(cache, epochs, at)) is not None:
        piece = read_segment(store, indexes, segment, at, 300_000)
        aborted, _ = aborted_transactions(indexes, segment, at, piece.next_offset, following, epochs)
        for position, header in iter_headers(piece.data):
            is_aborted = header.is_transactional and any(
                one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
                for one in aborted
            )
            if not header.is_control and not is_aborted:
                found += [(one.offset, one.value) for one in decode_batch(piece.data, position)]
        at = piece.next_offset
    return found


def epochs_in(checkpoint: bytes) -> list[tuple[int, int]]:
    return [(int(epoch), int(start)) for epoch, start in (line.split() for line in checkpoint.splitlines()[2:])]


def test_tier_of_apache_is_read_like_its_topic(apache: ApacheKafka, folder: Path) -> None:
    partition = create(apache, "written-by-apache")
    write(apache, partition.topic, 7)

    def copied() -> RemoteLogMetadataCache | None:
        cache = followed(apache, partition).followed[partition].cache
        return cache if cache.highest_offset(0) > 600 else None

    cache = eventually(copied, what="Apache Kafka copies the closed segments")
    store = FolderStore({"dir": str(folder)})
    last = max(cache.segments(), key=lambda one: one.start_offset)
    epochs = epochs_in(remote_index(store, last, PartType.LEADER_EPOCHS))
    found = read_committed(store, cache, epochs)
    expected = consumed(apache, partition.topic, **{"isolation.level": "read_committed"})
    assert found == [one for one in expected if one[0] <= cache.highest_offset(0)] and len(found) > 250
    segment = segment_at(cache, epochs, 350)
    assert segment is not None
    by_time = find_by_timestamp(store, IndexCache(store, 1 << 20), segment, segment.max_timestamp_ms, 0)
    assert by_time is not None and segment.start_offset <= by_time.offset <= segment.end_offset


def altered(apache: ApacheKafka, topic: str, configs: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": apache.bootstrap})
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)


def publisher(
    apache: ApacheKafka, cache: RemoteLogMetadataCache
) -> Callable[[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate], Applied]:
    producer = Producer({"bootstrap.servers": apache.bootstrap, "acks": "all"})

    def publish(event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> Applied:
        number = metadata_partition(event.partition, _METADATA_PARTITIONS)
        producer.produce(METADATA_TOPIC, encode_event(event), partition=number)
        assert producer.flush(60) == 0
        read = decode_event(encode_event(event))
        assert isinstance(read, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
        return cache.apply(read)

    return publish


def test_apache_serves_what_odradek_has_copied(apache: ApacheKafka, folder: Path, tmp_path: Path) -> None:
    """Odradek copies the closed segments; Apache Kafka then deletes its own, and consumers read Odradek's objects."""
    partition = create(apache, "copied-by-odradek", **{"remote.log.copy.disable": "true"})
    write(apache, partition.topic, 7)
    committed = {"isolation.level": "read_committed"}
    expected = consumed(apache, partition.topic, **committed)
    data = apache.data_dir / f"{partition.topic}-0"
    shutil.copytree(data, tmp_path / data.name)
    log = Log.open(tmp_path / data.name, partition.topic, 0, LogConfig(), now_ms=0)
    cache, store = RemoteLogMetadataCache(), FolderStore({"dir": str(folder)})
    store.create()
    publish = publisher(apache, cache)
    source = LeaderLog(partition, log, cache, broker_id=1)
    plans = plan_copies(source, log.log_end_offset, now_ms=0, new_id=lambda: os.urandom(16))
    assert len(plans) >= 5
    for plan in plans:
        copy_segment(plan, store, publish, lambda: 0, lambda: True)

    altered(apache, partition.topic, {"remote.log.copy.disable": "false", "local.retention.ms": "1"})
    first = f"{plans[-1].segment.start_offset:020}.log"
    eventually(lambda: not (data / first).exists(), what="Apache Kafka deletes the segments that Odradek has copied")
    assert consumed(apache, partition.topic, **committed) == expected
    own = {plan.segment.segment_id for plan in plans}
    ids = {one.segment_id: one for one in followed(apache, partition).followed[partition].cache.segments()}
    assert own <= set(ids), "Apache Kafka has copied none of these segments itself"
    assert {ids[one].start_offset for one in set(ids) - own}.isdisjoint(ids[one].start_offset for one in own)
