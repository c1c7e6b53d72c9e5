"""A scan of a tiered topic reads the store itself, and equals the reading of kafka-python, which the broker serves."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import odradek
import pytest
from botocore.exceptions import BotoCoreError
from kafka import KafkaAdminClient, TopicPartition
from odradek.columns import (
    InvalidScan,
    RemoteStoreUnavailable,
    Scan,
    UnreadableOffsets,
    cluster,
    cluster_plan,
    read_split,
    scan,
)
from odradek.tiers.metadata_snapshot import write_snapshot
from odradek.tiers.metadata_topic import MetadataPartition, metadata_partition
from odradek.tiers.segment_metadata import METADATA_TOPIC, TopicIdPartition

from compat_tests.broker_process import free_port
from compat_tests.recipes import eventually
from tests.columns.harness.logs import NOW_MS, Row
from tests.columns.harness.world import CODECS, LEVELS, World

pytestmark = pytest.mark.usefixtures("processes")

_BROKER = {
    "remote.log.storage.system.enable": "true",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.flush.scheduler.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.ms": "-1",
}
_TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": "5000",
    "local_retention_bytes": "1",
    "file_delete_delay_ms": "100",
}
_ACCESS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "eu-central-1"}


class TieredWorld(World):
    """`store` are the properties that name the store."""

    def __init__(self, directory: Path, store: dict[str, str]) -> None:
        self.directory, self.store, self._metrics_port = directory, store, free_port()
        metrics = {"odradek.metrics.port": str(self._metrics_port)}
        self.broker = odradek.Broker(data_dir=directory, config=_BROKER | store | metrics)

    def create_tiered(self, topic: str, **configs: str) -> None:
        self.create(topic, **_TIERED | configs)

    def await_tiered(self, topic: str) -> None:
        """Waits until all closed segments are in the store only."""
        directory = self.directory / f"{topic}-0"
        eventually(
            lambda: len(list(directory.glob("*.log"))) == 1, what=f"{topic} has one local segment", deadline_s=60
        )

    def await_tiered_up_to_the_last_stable_offset(self, topic: str) -> None:
        """Waits until the log begins on the disk with the first segment that has an open transaction."""
        client = {"bootstrap.servers": self.broker.bootstrap_servers}

        def is_stored() -> bool:
            end = scan(topic, client=client, isolation_level="read_committed").plan.ends[0]
            bases = sorted(int(one.stem) for one in (self.directory / f"{topic}-0").glob("*.log"))
            return bases[0] > 0 and bases[0] <= end < bases[1]

        eventually(is_stored, what=f"{topic} is in the store up to its open transaction", deadline_s=60)

    def scan(self, topic: str, **options: Any) -> Scan:
        client = {"bootstrap.servers": self.broker.bootstrap_servers, **self.store}
        return scan(topic, client=client, split_bytes=1_500, **options)

    def fetch_requests(self) -> float:
        """Reads of the store by the broker, by its metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics") as response:
            lines = response.read().decode().splitlines()
        return sum(float(one.rpartition(" ")[2]) for one in lines if "_remotefetchrequests_total{" in one)


def rows_of(found: Scan) -> list[Row]:
    table = found.to_table()
    table.validate(full=True)
    stamps = table.column("timestamp").cast("int64").to_pylist()
    return [
        Row(one["offset"], stamp, one["timestamp_type"], one["key"], one["value"],
            tuple((pair["key"], pair["value"]) for pair in one["headers"]))
        for one, stamp in zip(table.to_pylist(), stamps, strict=True)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server with a bucket."""
    address = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.rpartition(":")[2]]
    with (tmp_path_factory.mktemp("moto") / "moto.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    client = boto3.client("s3", endpoint_url=address, **_ACCESS)

    def is_made() -> bool:
        try:
            client.create_bucket(
                Bucket="tier", CreateBucketConfiguration={"LocationConstraint": _ACCESS["region_name"]}
            )
        except BotoCoreError:
            return False
        return True

    try:
        eventually(is_made, what="the S3 server answers")
        yield address
    finally:
        process.terminate()
        process.wait(60)


def fill(made: TieredWorld) -> None:
    for seed, codec in enumerate(CODECS):
        made.create_tiered(codec)
        made.fill(codec, 600 if codec == "none" else 2_000, seed, compression_type=codec)
    made.create_tiered("transactions", internal_segment_bytes="700")
    made.fill_transactions("transactions")
    made.create_tiered("deleted")
    made.fill("deleted", 600, 9)
    for topic in TOPICS:
        made.await_tiered(topic)
    admin = KafkaAdminClient(bootstrap_servers=made.broker.bootstrap_servers)
    admin.delete_records({TopicPartition("deleted", 0): 101})
    admin.close()


TOPICS = (*CODECS, "transactions", "deleted")


@pytest.fixture(scope="module", params=["folder", "s3"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredWorld]:
    base = tmp_path_factory.mktemp("tier")
    if request.param == "folder":
        store = {"remote.log.storage.manager.class.name": "folder", "rsm.config.dir": str(base / "store")}
    else:
        store = {
            "remote.log.storage.manager.class.name": "objects",
            "rsm.config.url": "s3://tier/kafka",
            "rsm.config.store.endpoint": request.getfixturevalue("bucket"),
            "rsm.config.store.region": _ACCESS["region_name"],
            "rsm.config.store.access_key_id": "testing",
            "rsm.config.store.secret_access_key": "testing",
            "rsm.config.client.allow_http": "true",
        }
    made = TieredWorld(base / "data", store)
    with made.broker:
        fill(made)
        yield made


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", TOPICS)
def test_scan_of_a_tiered_topic_has_the_records_of_a_consumer(world: TieredWorld, topic: str, level: str) -> None:
    before = world.fetch_requests()
    found = world.scan(topic, isolation_level=level)
    rows, count = rows_of(found), found.count()
    assert world.fetch_requests() == before, "the broker reads the store for no scan"
    expected = world.by_kafka_python(topic, level)
    assert rows == expected and count == len(expected) > 0
    assert world.fetch_requests() > before
    assert len([one for one in found.splits if one.remote is not None]) > 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", TOPICS)
def test_scan_from_another_machine_has_the_records_of_a_consumer(
    world: TieredWorld, monkeypatch: pytest.MonkeyPatch, topic: str, level: str
) -> None:
    monkeypatch.setattr(cluster_plan, "_is_of", lambda *_: False)
    expected = world.by_kafka_python(topic, level)
    before = world.fetch_requests()
    found = world.scan(topic, isolation_level=level)
    assert rows_of(found) == expected and found.count() == len(expected)
    assert world.fetch_requests() == before
    assert [one.path for one in found.splits] == [None] * len(found.splits)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", TOPICS)
def test_scan_of_a_directory_has_the_records_of_a_consumer(world: TieredWorld, topic: str, level: str) -> None:
    before = world.fetch_requests()
    found = scan(world.directory / topic, client=world.store, isolation_level=level, split_bytes=1_500)
    rows, count = rows_of(found), found.count()
    assert world.fetch_requests() == before
    expected = world.by_kafka_python(topic, level)
    assert rows == expected and count == len(expected)
    assert [one for one in found.splits if one.remote is not None]


@pytest.mark.parametrize("chunk_bytes", [100, 700, 2_000])
def test_records_do_not_depend_on_the_size_of_a_request(
    world: TieredWorld, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr("odradek.columns.remote_segment.CHUNK_BYTES", chunk_bytes)
    found = world.scan("zstd")
    assert rows_of(found) == world.by_kafka_python("zstd", LEVELS[0])
    assert found.count() == len(rows_of(found))


def test_splits_are_read_by_other_processes(world: TieredWorld) -> None:
    found = world.scan("lz4")
    parts = [read_split(pickle.loads(pickle.dumps(one)), ["offset"]) for one in found.splits]
    offsets = [row for part in parts for batch in part for row in batch.column("offset").to_pylist()]
    assert offsets == [one.offset for one in world.by_kafka_python("lz4", LEVELS[0])]
    assert [one.next_offset for one in parts] == [one.next_offset for one in found.splits]
    secrets = [value for key, value in world.store.items() if "secret" in key]
    assert not [one for one in secrets if one in repr(found.splits)]


@pytest.mark.parametrize("level", LEVELS)
def test_bounds_hold_for_records_of_the_store(world: TieredWorld, level: str) -> None:
    expected = world.by_kafka_python("transactions", level)
    for first, end in ((0, 1), (3, 17), (16, 41), (40, 71)):
        found = world.scan("transactions", isolation_level=level, start_offsets=first, end_offsets=end)
        assert rows_of(found) == [one for one in expected if first <= one.offset < end]
        assert found.count() == len(rows_of(found))
    since = NOW_MS + 40
    found = world.scan("transactions", isolation_level=level, start_timestamp=since)
    assert rows_of(found) == [one for one in expected if one.timestamp >= since]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredWorld]:
    """A broker with a store in a folder, without topics."""
    base = tmp_path_factory.mktemp("small")
    store = {"remote.log.storage.manager.class.name": "folder", "rsm.config.dir": str(base / "store")}
    made = TieredWorld(base / "data", store)
    with made.broker:
        yield made


def objects_of(made: TieredWorld, topic: str, suffix: str = ".log") -> list[Path]:
    return sorted(Path(made.store["rsm.config.dir"]).glob(f"kafka-tiered-storage/{topic}-0-*/*{suffix}"))


@pytest.mark.parametrize("isolation_level", LEVELS)
def test_batch_over_the_end_of_a_range_is_read_once(small: TieredWorld, isolation_level: str) -> None:
    """Ranges of one split may follow each other within a batch: a segment is cut at offsets."""
    topic = f"cut-{isolation_level}"
    small.create_tiered(topic)
    small.fill(topic, 100, 5)
    small.await_tiered(topic)
    found = small.scan(topic, isolation_level=isolation_level, end_offsets=60)
    assert [one.offset for one in rows_of(found)] == list(range(60))
    ranges = [one for split in found.splits if split.remote is not None for one in split.remote.ranges]
    remote = found.splits[0].remote
    assert remote is not None
    end = ranges[-1].next_offset
    for cut in range(1, end):
        before = [one._replace(next_offset=min(one.next_offset, cut)) for one in ranges if one.first_offset < cut]
        after = [one._replace(first_offset=max(one.first_offset, cut)) for one in ranges if one.next_offset > cut]
        split = replace(found.splits[0], next_offset=end, remote=remote._replace(ranges=(*before, *after)))
        read = read_split(split, ["offset"])
        assert [row for batch in read for row in batch.column("offset").to_pylist()] == list(range(end))
        assert read_split(split, ["offset"]).count() == end


def test_offsets_that_are_on_the_disk_and_in_the_store_come_once(small: TieredWorld) -> None:
    small.create_tiered("both", local_retention_bytes="-2")
    small.fill("both", 600, 1)
    local = small.directory / "both-0"
    eventually(
        lambda: len(objects_of(small, "both")) == len(list(local.glob("*.log"))) - 1 > 3,
        what="all closed segments are in the store", deadline_s=60,
    )  # fmt: skip
    found = small.scan("both")
    assert rows_of(found) == small.by_kafka_python("both", LEVELS[0])
    assert not [one for one in found.splits if one.remote is not None], "files of this machine come first"


@pytest.mark.parametrize("source", ["files", "fetch", "nothing"])
def test_transactions_that_end_behind_the_store_are_left_out(
    small: TieredWorld, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """A marker is in the log, its records are in the store, and another transaction holds the last stable offset there."""
    if source != "files":
        monkeypatch.setattr(cluster_plan, "_is_of", lambda *_: False)
    topic = f"open-{source}"
    small.create_tiered(topic, internal_segment_bytes="2000")
    aborted, opened, plain = (
        small.producer(transactional_id=f"{topic}-{name}") for name in ("aborted", "opened", "plain")
    )
    for one in (aborted, opened, plain):
        one.init_transactions(30)
    plain.begin_transaction()
    for number in range(40):
        plain.produce(topic, b"plain %d" % number * 20, partition=0)
        plain.flush(30)
    plain.commit_transaction(30)
    aborted.begin_transaction()
    for number in range(10):
        aborted.produce(topic, b"aborted %d" % number * 20, partition=0)
        aborted.flush(30)
    opened.begin_transaction()
    opened.produce(topic, b"open", partition=0)
    opened.flush(30)
    for number in range(10, 20):
        aborted.produce(topic, b"aborted %d" % number * 20, partition=0)
        aborted.flush(30)
    aborted.abort_transaction(30)
    small.await_tiered_up_to_the_last_stable_offset(topic)
    expected = small.by_kafka_python(topic, LEVELS[1])
    if source == "nothing":  # no record behind the store is stable: brokers decide from the first open transaction on
        monkeypatch.setattr(cluster.Cluster, "aborted_of", lambda *_: None)
    found = small.scan(topic, isolation_level=LEVELS[1])
    assert rows_of(found) == expected and len(expected) == 40
    remote_end = max(one.next_offset for one in found.splits if one.remote is not None)
    assert remote_end > 41 if source != "nothing" else remote_end == 41
    opened.commit_transaction(30)
    small.await_tiered(topic)
    monkeypatch.undo()
    before = small.fetch_requests()
    assert len(rows_of(small.scan(topic, isolation_level=LEVELS[1]))) == 41
    assert small.fetch_requests() == before


def test_store_that_fails_is_named_with_segment_and_offset(small: TieredWorld, tmp_path: Path) -> None:
    small.create_tiered("failing")
    small.fill("failing", 300, 2)
    small.await_tiered("failing")
    found, (first, *_) = small.scan("failing"), objects_of(small, "failing")
    first.chmod(0)
    hidden = first.with_suffix(".hidden")
    first.rename(hidden)
    first.mkdir()
    try:
        with pytest.raises(RemoteStoreUnavailable, match=rf"failing-0: offset 0: folder:.*{first.name} cannot be read"):
            found.to_table()
        with pytest.raises(RemoteStoreUnavailable):
            small.scan("failing", on_unreadable="skip").to_table()
    finally:
        first.rmdir()
        hidden.rename(first)
        first.chmod(0o600)
    assert rows_of(found) == small.by_kafka_python("failing", LEVELS[0])


@pytest.mark.parametrize("exists", [False, True])
def test_wrong_folder_of_the_store_is_named_and_nothing_is_created_in_it(
    small: TieredWorld, tmp_path: Path, exists: bool
) -> None:
    topic, wrong = f"misplaced-{exists}", tmp_path / "wrong"
    small.create_tiered(topic)
    small.fill(topic, 300, 2)
    small.await_tiered(topic)
    if exists:
        wrong.mkdir()
    client = {"bootstrap.servers": small.broker.bootstrap_servers, **small.store, "rsm.config.dir": str(wrong)}
    for on_unreadable in ("raise", "skip"):
        with pytest.raises(RemoteStoreUnavailable, match=rf"the folder {wrong}/kafka-tiered-storage is not there"):
            scan(topic, client=client, on_unreadable=on_unreadable).to_table()
    assert list(tmp_path.rglob("*")) == [wrong] * exists


def test_settings_that_name_no_store_are_refused(small: TieredWorld) -> None:
    small.create_tiered("unnamed")
    small.fill("unnamed", 300, 2)
    small.await_tiered("unnamed")
    client = {
        "bootstrap.servers": small.broker.bootstrap_servers,
        "remote.log.storage.manager.class.name": "python:nowhere:Store",
    }
    with pytest.raises(InvalidScan, match="the remote store cannot be opened: python:nowhere:Store"):
        scan("unnamed", client=client)


def test_damaged_and_missing_segments_are_named(small: TieredWorld) -> None:
    small.create_tiered("damaged")
    small.fill("damaged", 300, 3)
    small.await_tiered("damaged")
    first, second, third, *_ = objects_of(small, "damaged")
    rows = small.by_kafka_python("damaged", LEVELS[0])
    content = bytearray(first.read_bytes())
    content[100] ^= 1
    first.write_bytes(content)
    second.unlink()
    with pytest.raises(UnreadableOffsets, match=rf"damaged-0: offsets? 0.*{first.name} at position 0: the CRC is"):
        small.scan("damaged").to_table()
    found = small.scan("damaged", on_unreadable="skip")
    left = rows_of(found)
    gone = [one for one in found.unread if second.name in one.file]
    assert (gone[0].first_offset, gone[-1].next_offset) == (int(second.name[:20]), int(third.name[:20]))
    assert all("is not in the store" in one.reason for one in gone)
    crc = [one for one in found.unread if one not in gone]
    assert all("the CRC is" in one.reason and first.name in one.file for one in crc) and crc[0].first_offset == 0
    lost = {offset for one in found.unread for offset in range(one.first_offset, one.next_offset)}
    assert left == [one for one in rows if one.offset not in lost]


def test_offsets_removed_since_the_plan_are_named(small: TieredWorld) -> None:
    small.create_tiered("removed")
    small.fill("removed", 300, 4)
    small.await_tiered("removed")
    found, before = small.scan("removed", on_unreadable="skip"), objects_of(small, "removed")
    third = int(before[2].name[:20])
    admin = KafkaAdminClient(bootstrap_servers=small.broker.bootstrap_servers)
    admin.delete_records({TopicPartition("removed", 0): third})
    admin.close()
    eventually(lambda: len(objects_of(small, "removed")) == len(before) - 2, what="segments are deleted", deadline_s=60)
    assert found.count() == small.scan("removed").count()
    assert {one.reason for one in found.unread} == {"removed by retention or DeleteRecords since the scan was planned"}
    assert (found.unread[0].first_offset, found.unread[-1].next_offset) == (0, third)


def test_lost_index_of_transactions_hides_no_record_that_is_not_committed(small: TieredWorld) -> None:
    small.create_tiered("unindexed", internal_segment_bytes="700")
    small.fill_transactions("unindexed")
    small.await_tiered("unindexed")
    expected = small.by_kafka_python("unindexed", LEVELS[1])
    for one in objects_of(small, "unindexed", ".txnindex"):
        one.unlink()
    try:
        found = rows_of(small.scan("unindexed", isolation_level=LEVELS[1]))
    except UnreadableOffsets as error:
        assert "index of aborted transactions lacks" in str(error)
    else:
        assert found == expected


def test_leader_epochs_of_the_store_choose_between_copies(small: TieredWorld) -> None:
    """Without the file of the epochs nothing is known of the history, and the store is named."""
    small.create_tiered("epochs")
    small.fill("epochs", 300, 5)
    small.await_tiered("epochs")
    last = objects_of(small, "epochs", ".leader_epoch_checkpoint")[-1]
    content = last.read_bytes()
    last.write_bytes(b"0\n1\n7 0\n")
    with pytest.raises(RemoteStoreUnavailable, match=rf"epochs-0: offset 0: store folder .*{last.name}"):
        small.scan("epochs")
    last.write_bytes(content)
    assert rows_of(small.scan("epochs")) == small.by_kafka_python("epochs", LEVELS[0])


def test_directory_of_a_tiered_topic_is_not_read_in_part_in_silence(small: TieredWorld) -> None:
    small.create_tiered("partial")
    small.fill("partial", 300, 6)
    small.await_tiered("partial")
    expected = small.by_kafka_python("partial", LEVELS[0])
    (base,) = (int(one.stem) for one in (small.directory / "partial-0").glob("*.log"))
    with pytest.raises(InvalidScan, match=rf"partial-0: offsets 0 to {base - 1} are in a remote store: name it"):
        scan(small.directory / "partial")
    found = scan(small.directory / "partial", start_offsets=base)
    assert rows_of(found) == [one for one in expected if one.offset >= base]


def test_copy_of_a_directory_without_the_metadata_topic_has_the_snapshots(small: TieredWorld, tmp_path: Path) -> None:
    small.create_tiered("copied")
    small.fill("copied", 300, 7)
    small.await_tiered("copied")
    expected = small.by_kafka_python("copied", LEVELS[0])
    (topic_id,) = (one.topic_id for one in small.scan("copied").splits[:1])
    assert topic_id is not None
    partition = TopicIdPartition(topic_id, "copied", 0)
    events = scan(small.directory / METADATA_TOPIC, columns=["partition", "offset", "value"]).to_table().to_pylist()
    metadata = MetadataPartition(metadata_partition(partition, 3))
    metadata.follow(partition, 0)
    for one in events:
        if one["partition"] == metadata.number:
            metadata.consume(one["offset"], one["value"])
            metadata.advance(one["offset"] + 1)
    shutil.copytree(small.directory / "copied-0", tmp_path / "copied-0")
    write_snapshot(f"{tmp_path}/odradek-remote-log-metadata-{metadata.number}.snapshot", b"m" * 16, metadata)
    assert rows_of(scan(tmp_path / "copied", client=small.store)) == expected
