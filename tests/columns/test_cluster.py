"""A scan of a running broker's topic: from its files where this machine has them, through Fetch otherwise; always equal."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, TopicPartition
from odradek.columns import (
    SCHEMA,
    ClusterError,
    FetchReader,
    InvalidScan,
    Scan,
    Split,
    UnreadableOffsets,
    read_split,
    scan,
)
from odradek.columns.cluster import PATIENCE_S, Cluster
from odradek.columns.readers import open_split
from odradek.columns.split_reader import ReadOptions
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from odradek.protocol.messages.fetch import PartitionData
from odradek.protocol.messages.quota_entities import EntityData

from compat_tests.wire import WireClient
from tests.columns.harness.world import CODECS, LEVELS, World

#: Bytes a second. Ten times as much are sent at once: the topic is read so often that it is more.
QUOTA, READINGS = 1_000.0, 5

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("cluster"))
    with made.broker:
        for seed, codec in enumerate(CODECS):
            made.create(codec, internal_segment_bytes="6000")
            made.fill(codec, 600, seed, compression_type=codec)
        made.create("transactions", internal_segment_bytes="2000")
        made.fill_transactions("transactions")
        made.create("removed", internal_segment_bytes="6000")
        made.fill("removed", 300, 9)
        yield made


def fetched(found: Scan) -> Scan:
    """The same scan, with all records through Fetch."""
    (one,) = found.plan.partitions
    split = dataclasses.replace(one.splits[-1], path=None, first_offset=one.start, next_offset=one.end)
    plan = dataclasses.replace(found.plan, partitions=(dataclasses.replace(one, splits=(split,)),))
    return Scan(plan, ReadOptions(SCHEMA.names))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", [*CODECS, "transactions"])
def test_files_and_fetch_give_what_the_directory_has(world: World, topic: str, level: str) -> None:
    expected = scan(world.directory / topic, isolation_level=level).to_table()
    found = scan(topic, bootstrap_servers=world.broker.bootstrap_servers, isolation_level=level, split_bytes=10_000)
    assert [split.path is None for split in found.splits] == [False] * (len(found.splits) - 1) + [True]
    assert len(found.splits) > 1
    assert found.to_table() == expected and found.count() == expected.num_rows
    through_brokers = fetched(found)
    assert through_brokers.to_table() == expected and through_brokers.count() == expected.num_rows


def test_reader_of_an_open_transaction_waits_for_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends a single uncommitted fetch, and gets the records with the commit."""
    world.create("open")
    producer = world.producer(transactional_id="open")
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"value", partition=0)
    assert producer.flush(30) == 0
    asked: list[bool] = []
    original = Cluster.fetch

    def fetch(self: Cluster, split: Split, *given: Any) -> PartitionData:
        found = original(self, split, *given)
        asked.append(split.is_read_committed)
        if asked.count(True) == 3:
            producer.commit_transaction(30)
        return found

    monkeypatch.setattr(Cluster, "fetch", fetch)
    client = {"bootstrap.servers": world.broker.bootstrap_servers}
    reader = FetchReader(Split("open", 0, 0, 1, aborted=(), client=client), ReadOptions(["value"]))
    assert [batch.column(0).to_pylist() for batch in reader] == [[b"value"]]
    assert asked == [True, False, True, True, True]


def test_client_with_a_quota_waits_and_reads_all(world: World) -> None:
    """The response of a broker that holds records back has no partition (KIP-219)."""
    entity = [EntityData(entity_type="client-id", entity_name="held")]
    with WireClient(world.broker.bootstrap_servers) as client:
        change = [OpData(key="consumer_byte_rate", value=QUOTA, remove=False)]
        (entry,) = client.call(AlterClientQuotasRequest([EntryDataRequest(entity, change)], False), 1).entries
    assert entry.error_code == 0
    properties = {"bootstrap.servers": world.broker.bootstrap_servers, "client.id": "held"}
    expected = scan(world.directory / "transactions").to_table()
    for _ in range(READINGS):
        assert fetched(scan("transactions", client=properties)).to_table() == expected


@pytest.mark.parametrize("level", LEVELS)
def test_bounds_hold_for_fetched_records(world: World, level: str) -> None:
    options = {"start_offsets": 17, "end_offsets": 51, "isolation_level": level}
    expected = scan(world.directory / "transactions", **options).to_table()
    found = scan("transactions", bootstrap_servers=[world.broker.bootstrap_servers], **options)
    assert fetched(found).to_table() == expected == found.to_table()


def test_files_that_moved_since_the_plan_are_replaced_by_fetch(world: World) -> None:
    found = scan("zstd", bootstrap_servers=world.broker.bootstrap_servers)
    expected = found.to_table()
    local = found.splits[0]
    moved = pickle.loads(pickle.dumps(dataclasses.replace(local, path="/nowhere/zstd-0")))
    reader = read_split(moved, SCHEMA.names)
    rows = pa.Table.from_batches(list(reader), SCHEMA)
    assert rows == expected.slice(0, rows.num_rows) and reader.next_offset == local.next_offset
    assert read_split(moved, []).count() == rows.num_rows > 0


def test_records_deleted_since_the_plan_are_named(world: World) -> None:
    found = scan("removed", bootstrap_servers=world.broker.bootstrap_servers)
    before = fetched(found)
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.delete_records({TopicPartition("removed", 0): 201})
    admin.close()
    with pytest.raises(UnreadableOffsets, match=r"removed-0: offsets 0 to 200 cannot be read: Fetch from .*: removed"):
        before.to_table()
    skipping = Scan(before.plan, ReadOptions(SCHEMA.names, skip=True))
    assert skipping.to_table().column("offset").to_pylist() == list(range(201, 300))
    assert [(one.first_offset, one.next_offset) for one in skipping.unread] == [(0, 201)]
    again = scan("removed", bootstrap_servers=world.broker.bootstrap_servers)
    assert again.offsets == {0: (201, 300)} and again.count() == 99


def test_topic_that_is_created_again_is_read_by_its_new_id(world: World) -> None:
    address = world.broker.bootstrap_servers
    with contextlib.closing(Cluster({"bootstrap.servers": address})) as cluster:
        for seed, count in ((1, 30), (2, 20)):
            world.create("again")
            world.fill("again", count, seed)
            (split,) = fetched(scan("again", bootstrap_servers=address)).splits
            rows = sum(batch.num_rows for batch in open_split(split, ReadOptions(SCHEMA.names), cluster))
            assert rows == count
            with contextlib.closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
                admin.delete_topics(["again"])


def test_split_of_a_topic_that_was_created_again_fails_within_seconds(world: World) -> None:
    address = world.broker.bootstrap_servers
    world.create("replaced")
    world.fill("replaced", 10, 1)
    (split,) = fetched(scan("replaced", bootstrap_servers=address)).splits
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.delete_topics(["replaced"])
    world.create("replaced")
    began = time.monotonic()
    with contextlib.closing(Cluster({"bootstrap.servers": address})) as cluster:
        assert cluster.fetch(split, 0).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert time.monotonic() - began < PATIENCE_S / 2


def test_newest_records_come_through_the_broker(world: World) -> None:
    world.create("growing")
    for number in range(3):
        world.fill("growing", 10, number)
        found = scan("growing", bootstrap_servers=world.broker.bootstrap_servers)
        assert found.count() == 10 * (number + 1) and [split.path for split in found.splits] == [None]


def test_mistakes_name_their_cause(world: World) -> None:
    with pytest.raises(ClusterError, match="topic nothing"):
        scan("nothing", bootstrap_servers=world.broker.bootstrap_servers)
    with pytest.raises(ClusterError, match=r"cannot connect to 127\.0\.0\.1:1 "):
        scan("nothing", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(InvalidScan, match=r"bootstrap\.servers"):
        scan("zstd", client={"client.id": "x"})


def test_secured_cluster_is_read_with_client_properties(tmp_path: Path) -> None:
    with odradek.Broker(data_dir=tmp_path, security="scram") as broker:
        settings: dict[str, Any] = broker.client_settings("confluent-kafka")
        from confluent_kafka import Producer

        producer = Producer(settings)
        for number in range(20):
            producer.produce("secured", b"%d" % number)
        assert producer.flush(30) == 0
        found = scan("secured", client=dict(broker.client_properties))
        assert found.select(["value"]).to_table().column("value").to_pylist() == [b"%d" % n for n in range(20)]
        assert "password" not in repr(found.splits)
