"""One broker with tiered storage in a folder: clients read, by offset and by time, what only the store has."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    OffsetSpec,
)
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from compat_tests.access import connect
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually

from . import tiered

COUNT = 6000


def offset_of(broker: OdradekProcess, timestamp: int, topic: str = tiered.TOPIC) -> int:
    """Returns the response of ListOffsets, of its newest version."""
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, timestamp)])
    with connect(broker.bootstrap) as client:
        found = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked], timeout_ms=10_000), 11)
    (response,) = found.topics[0].partitions
    assert response.error_code == 0, response
    return int(response.offset)


def test_records_of_removed_segments_are_read_after_restart_and_kill(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
    broker.stop()
    broker.start()
    assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
    broker.kill()
    broker.start()
    more = tiered.values_of(COUNT, COUNT)
    tiered.produce(broker.bootstrap, more)
    tiered.await_local_start(broker.data_dir, COUNT + COUNT // 2)
    assert tiered.consume(broker.bootstrap, 2 * COUNT) == tiered.numbered(values + more)


def test_broker_that_is_killed_while_it_copies_loses_nothing(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    values: list[bytes] = []
    for turn in range(4):
        more = tiered.values_of(COUNT // 2, turn * COUNT // 2)
        tiered.produce(broker.bootstrap, more)
        values += more
        tiered.await_remote(folder, 2 * turn + 1)
        broker.kill()
        broker.start()
    tiered.await_local_start(broker.data_dir, COUNT)
    assert tiered.consume(broker.bootstrap, len(values)) == tiered.numbered(values)
    uploads = folder / "odradek-uploads"
    eventually(lambda: not list(uploads.iterdir()), what="no upload is left unfinished", deadline_s=30)


def test_leader_epochs_that_are_lost_are_read_from_the_store(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    before = len(tiered.remote_segments(folder))
    assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
    broker.kill()
    (broker.data_dir / f"{tiered.TOPIC}-0" / "leader-epoch-checkpoint").unlink()
    (broker.data_dir / "log-start-offset-checkpoint").write_text("0\n0\n")
    broker.start()
    assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
    assert offset_of(broker, -2) == 0 and len(tiered.remote_segments(folder)) >= before


def test_aborted_transactions_of_the_store_are_hidden_from_read_committed(broker: OdradekProcess) -> None:
    tiered.make_topic(broker.bootstrap)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "batch.size": 20_000})
    producer.init_transactions(30)
    committed: list[bytes] = []
    for number in range(12):
        values = tiered.values_of(500, number * 500)
        producer.begin_transaction()
        for value in values:
            producer.produce(tiered.TOPIC, value, partition=0)
        producer.flush(30)
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed += values
    start = tiered.await_local_start(broker.data_dir, COUNT // 2)
    found = tiered.consume(broker.bootstrap, len(committed), isolation_level="read_committed")
    assert [value for _, value in found] == committed
    assert sum(offset < start for offset, _ in found) > 2000
    broker.kill()
    broker.start()
    found = tiered.consume(broker.bootstrap, len(committed), isolation_level="read_committed")
    assert [value for _, value in found] == committed


def test_list_offsets_has_both_parts_of_the_log(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap, retention_ms="-1")
    assert [offset_of(broker, timestamp) for timestamp in (-1, -2, -4)] == [0, 0, 0]
    eventually(lambda: offset_of_or_none(broker, -5) == -1, what="the events of the partition are read", deadline_s=30)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.size": 20_000})
    for number, value in enumerate(tiered.values_of(COUNT)):
        producer.produce(tiered.TOPIC, value, partition=0, timestamp=1_000_000 + number)
        producer.poll(0)
    assert producer.flush(30) == 0
    start = tiered.await_local_start(broker.data_dir, COUNT // 2)
    assert [offset_of(broker, timestamp) for timestamp in (-1, -2)] == [COUNT, 0]
    eventually(
        lambda: offset_of(broker, -6) == offset_of(broker, -4), what="the local part is not copied", deadline_s=30
    )
    assert offset_of(broker, -4) >= start and offset_of(broker, -5) == offset_of(broker, -4) - 1
    for number in (0, 7, start // 2, start - 1, start, COUNT - 1):
        assert offset_of(broker, 1_000_000 + number) == number
    assert offset_of(broker, 1_000_000 + COUNT) == -1


def offset_of_or_none(broker: OdradekProcess, timestamp: int) -> int | None:
    try:
        return offset_of(broker, timestamp)
    except AssertionError:
        return None


def test_deleted_records_leave_the_store_and_are_out_of_range(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    start = tiered.await_local_start(broker.data_dir, COUNT // 2)
    first, cut = tiered.remote_segments(folder)[0], start - 1
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (done,) = admin.delete_records([TopicPartition(tiered.TOPIC, 0, cut)]).values()
    assert done.result(30).low_watermark == cut
    assert tiered.consume(broker.bootstrap, COUNT - cut) == tiered.numbered(values[cut:], cut)
    eventually(lambda: not first.exists(), what="a segment leaves the store", deadline_s=30)
    with pytest.raises(AssertionError, match=r"_AUTO_OFFSET_RESET|OUT_OF_RANGE|out of range"):
        tiered.consume(broker.bootstrap, 1, offset=0)
    checkpoint = broker.data_dir / "log-start-offset-checkpoint"
    written = f"{tiered.TOPIC} 0 {cut}\n"
    eventually(lambda: checkpoint.exists() and written in checkpoint.read_text(), what="it is written", deadline_s=60)
    broker.kill()
    broker.start()
    assert offset_of(broker, -2) == cut
    assert tiered.consume(broker.bootstrap, COUNT - cut) == tiered.numbered(values[cut:], cut)


def test_retention_by_size_deletes_from_the_store(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    tiered.produce(broker.bootstrap, tiered.values_of(COUNT))
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    tiered.alter(broker.bootstrap, retention_bytes=str(3 << 20), local_retention_bytes="1")
    start = eventually(lambda: offset_of(broker, -2), what="the log start offset moves", deadline_s=30)
    eventually(
        lambda: tiered.stored_bytes(folder) <= 3 << 20,
        what="the store has no more than the retention",
        deadline_s=30,
    )
    start = offset_of(broker, -2)
    found = tiered.consume(broker.bootstrap, COUNT - start)
    assert found[0][0] == start and len(found) == COUNT - start


def test_deletion_of_the_topic_empties_the_store(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    tiered.produce(broker.bootstrap, tiered.values_of(COUNT))
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (done,) = admin.delete_topics([tiered.TOPIC]).values()
    done.result(30)
    eventually(lambda: not tiered.remote_segments(folder), what="the store is empty", deadline_s=30)
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(10)
    tiered.produce(broker.bootstrap, values)
    assert tiered.consume(broker.bootstrap, 10) == tiered.numbered(values)


def test_disabled_topic_starts_with_its_local_part_and_leaves_the_store(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    with pytest.raises(KafkaException, match="without deleting remote data"):
        tiered.alter(broker.bootstrap, remote_storage_enable="false")
    tiered.alter(broker.bootstrap, remote_storage_enable="false", remote_log_delete_on_disable="true")
    eventually(lambda: not tiered.remote_segments(folder), what="the store is empty", deadline_s=30)
    start = offset_of(broker, -2)
    assert start == offset_of(broker, -4) >= COUNT // 2
    assert tiered.consume(broker.bootstrap, COUNT - start) == tiered.numbered(values[start:], start)


def test_copying_that_is_disabled_leaves_the_records_readable(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    tiered.alter(broker.bootstrap, remote_log_copy_disable="true", local_retention_bytes="-2")
    eventually(lambda: offset_of(broker, -6) == offset_of(broker, -5) + 1, what="copies end", deadline_s=30)
    more = tiered.values_of(COUNT, COUNT)
    tiered.produce(broker.bootstrap, more)
    assert tiered.consume(broker.bootstrap, 2 * COUNT) == tiered.numbered(values + more)
    assert len(tiered.local_bases(broker.data_dir)) > 5


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"cleanup_policy": "compact"}, "Remote log storage only supports topics with cleanup.policy=delete"),
        ({"retention_ms": "10", "local_retention_ms": "11"}, "local.retention.ms"),
        ({"remote_log_copy_disable": "true"}, "remote.log.copy.disable"),
    ],
)
def test_topic_with_invalid_tiered_config_is_rejected(
    broker: OdradekProcess, config: dict[str, str], words: str
) -> None:
    with pytest.raises(KafkaException, match=words):
        tiered.make_topic(broker.bootstrap, **config)


def test_offsets_of_clients_of_the_admin_api(broker: OdradekProcess) -> None:
    tiered.make_topic(broker.bootstrap)
    tiered.produce(broker.bootstrap, tiered.values_of(10))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (found,) = admin.list_offsets({TopicPartition(tiered.TOPIC, 0): OffsetSpec.earliest()}).values()
    assert found.result(30).offset == 0


def test_copies_and_reads_obey_their_quotas(tmp_path: Path, properties: dict[str, str]) -> None:
    properties |= {
        "remote.log.manager.copy.max.bytes.per.second": "1000000",
        "remote.log.manager.fetch.max.bytes.per.second": "1000000",
        "remote.log.manager.copy.quota.window.num": "2",
        "remote.log.manager.fetch.quota.window.num": "2",
    }
    with OdradekProcess(tmp_path / "node", properties) as broker:
        tiered.make_topic(broker.bootstrap)
        values = tiered.values_of(COUNT)
        began = time.monotonic()  # copies begin while records are produced
        tiered.produce(broker.bootstrap, values)
        start = tiered.await_local_start(broker.data_dir, COUNT // 2)
        # The first segment goes at once, and so may a window's worth.
        assert time.monotonic() - began > 1
        began = time.monotonic()
        assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
        assert start >= COUNT // 2 and time.monotonic() - began > 1
