"""Hostile records of `__remote_log_metadata`: caches, a broker's copies and deletions, `doctor` and `tier repair`."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.tiers.events import encode_event
from odradek.tiers.metadata_snapshot import decode_snapshot, encode_snapshot
from odradek.tiers.metadata_topic import MetadataPartition
from odradek.tiers.segment_metadata import METADATA_TOPIC, RemotePartitionDeleteMetadata, TopicIdPartition

from compat_tests.cli.commands import odradek_command
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually
from compat_tests.tiers import tiered
from compat_tests.wire import WireClient
from tests.harness.examples import examples
from tests.hostile.attack_target import BUG_LINES
from tests.hostile.metadata_records import hostile_record, valid_event

PARTITION = TopicIdPartition(b"topic-id-of-logs", "orders", 0)
TOPIC_ID = b"metadata-topic-1"
SEEDS, STEPS = examples(40), 60
RECORDS = 5000
METADATA_PARTITIONS = 3


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_caches_are_those_without_the_hostile_records(first: int) -> None:
    for seed in range(first, first + 10):
        rng = random.Random(seed)
        attacked, other = MetadataPartition(0), MetadataPartition(0)
        for one in (attacked, other):
            one.follow(PARTITION, STEPS)
        count = 0
        for offset in range(STEPS):
            if rng.random() < 0.5:
                assert attacked.consume(offset, hostile_record(rng, PARTITION)) is None
                count += 1
            else:
                event = valid_event(rng, PARTITION)
                if isinstance(event, RemotePartitionDeleteMetadata) and rng.random() < 0.7:
                    continue
                assert attacked.consume(offset, encode_event(event)) == other.consume(offset, encode_event(event))
        for one in (attacked, other):
            one.advance(STEPS)
        assert attacked.damaged_records == count and len(attacked.damaged) == min(count, 100)
        saved = decode_snapshot(encode_snapshot(TOPIC_ID, attacked), TOPIC_ID, 0)
        assert saved.damaged == attacked.damaged
        saved.damaged.clear()
        saved.damaged_records = 0
        assert encode_snapshot(TOPIC_ID, saved) == encode_snapshot(TOPIC_ID, other)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def broker(tmp_path: Path, store: Path, processes: None) -> Iterator[OdradekProcess]:
    with OdradekProcess(tmp_path / "node", tiered.properties(store)) as started:
        yield started


def produce(broker: OdradekProcess, client_id: str, values: list[bytes | None], compression: int = 0) -> int:
    """Returns the error of a Produce to the first metadata partition."""
    records = encode_batch(
        [Record(number, int(time.time() * 1000), None, value) for number, value in enumerate(values)]
    )
    data = TopicProduceData(name=METADATA_TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])
    with WireClient(broker.bootstrap, client_id=client_id) as client:
        response = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    return int(response.responses[0].partition_responses[0].error_code)


def fill(broker: OdradekProcess, store: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    tiered.produce(broker.bootstrap, tiered.values_of(RECORDS))
    tiered.await_remote(store, 3)


def test_clients_write_to_the_metadata_topic_only_what_nodes_may(broker: OdradekProcess, store: Path) -> None:
    fill(broker, store)
    rng = random.Random(1)
    for client_id in ("anyone", "", "odradek", "x__remote_log_metadata_client_1", "__remote_log_metadata_client"):
        event = encode_event(valid_event(rng, PARTITION))
        assert produce(broker, client_id, [event]) == ErrorCode.INVALID_TOPIC_EXCEPTION, client_id
    for client_id in ("__remote_log_metadata_client_2_producer", "odradek-2"):
        assert produce(broker, client_id, [encode_event(valid_event(rng, PARTITION))]) == 0
        for _ in range(30):
            values = [encode_event(valid_event(rng, PARTITION)), hostile_record(rng, PARTITION)]
            assert produce(broker, client_id, values) == ErrorCode.INVALID_RECORD


def plant(data_dir: Path, seed: int) -> int:
    """Appends hostile records to each metadata partition of a broker that does not run: an earlier release, or a leader of
    Apache Kafka, has let them in. Returns their number.
    """
    rng, count, now_ms = random.Random(seed), 0, int(time.time() * 1000)
    for number in range(METADATA_PARTITIONS):
        log = Log.open(data_dir / f"{METADATA_TOPIC}-{number}", METADATA_TOPIC, number, LogConfig(), now_ms=now_ms)
        for _ in range(3):
            values = [hostile_record(rng, PARTITION) for _ in range(rng.randrange(1, 4))]
            start = log.log_end_offset
            records = [Record(start + place, now_ms, None, value) for place, value in enumerate(values)]
            log.append(encode_batch(records, base_offset=start), None, now_ms)
            count += len(values)
        log.close(now_ms)
    return count


def doctor(broker: OdradekProcess, *words: str) -> list[str]:
    """Returns the subjects of the findings about metadata of remote segments."""
    done = odradek_command("doctor", *words, "--output", "json")
    return [one["subject"] for one in done.json if one["check"] == "remote metadata"]


def test_broker_copies_and_deletes_beside_hostile_records_which_repair_removes(
    broker: OdradekProcess, store: Path, tmp_path: Path
) -> None:
    fill(broker, store)
    broker.stop()
    count = plant(broker.data_dir, 1)
    assert len(doctor(broker, "--data-dir", str(broker.data_dir))) == min(count, 20) + (count > 20)
    broker.start()
    assert len(doctor(broker, "-b", broker.bootstrap)) == min(count, 20) + (count > 20)
    text = broker.log_file.read_text()
    assert text.count("cannot be read, and is skipped") == count
    before = len(tiered.remote_segments(store))
    tiered.produce(broker.bootstrap, tiered.values_of(RECORDS, RECORDS))
    tiered.await_remote(store, before + 3)
    start = tiered.await_local_start(broker.data_dir, RECORDS)
    assert tiered.consume(broker.bootstrap, 2 * RECORDS) == tiered.numbered(tiered.values_of(2 * RECORDS))

    config = tmp_path / "server.properties"
    config.write_text(f"remote.log.storage.manager.class.name={tiered.STORE_CLASS}\nrsm.config.dir={store}\n")
    listed = odradek_command("tier", "repair", "--config", str(config), "-b", broker.bootstrap, "--dry-run")
    assert f"{METADATA_TOPIC}-0: the record at offset" in listed.out and len(doctor(broker, "-b", broker.bootstrap)) > 0
    done = odradek_command("tier", "repair", "--config", str(config), "-b", broker.bootstrap, "--yes")
    assert done.status == 0, done.err
    assert doctor(broker, "-b", broker.bootstrap) == []
    checked = odradek_command("tier", "check", "--config", str(config), "-b", broker.bootstrap)
    assert checked.status == 0, checked.out + checked.err

    # A start reads what the repair has written, and nothing else.
    broker.stop()
    for snapshot in broker.data_dir.glob("odradek-remote-log-metadata-*.snapshot"):
        snapshot.unlink()
    broker.start()
    assert start > 0
    assert tiered.consume(broker.bootstrap, 2 * RECORDS) == tiered.numbered(tiered.values_of(2 * RECORDS))
    tiered.alter(broker.bootstrap, retention_ms="1", local_retention_ms="1")
    eventually(lambda: not tiered.remote_segments(store), what="all segments have expired", deadline_s=60)
    text = broker.log_file.read_text()
    assert not [line for line in BUG_LINES if line in text]
