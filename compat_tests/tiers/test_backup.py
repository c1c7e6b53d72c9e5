"""A backup of a tiered topic has what only the store has; a restored one is tiered from its first record on."""

from __future__ import annotations

import random
from pathlib import Path

from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition

from compat_tests.cli.commands import odradek_command
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually

from . import tiered

COUNT, START = 6000, 700


def test_backup_and_restore_of_a_tiered_topic(broker: OdradekProcess, folder: Path, tmp_path: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    rng = random.Random(1)
    values = [rng.randbytes(1000) for _ in range(COUNT)]  # a restore compresses them
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition(tiered.TOPIC, 0): START})
    admin.close()
    place, expected = str(tmp_path / "backup"), tiered.numbered(values)[START:]
    done = odradek_command("backup", place, "-b", broker.bootstrap, "--output", "json")
    assert (done.status, done.json[0]["new_records"]) == (0, COUNT - START), done.err

    assert done.json[0]["topics"] == 1, "the metadata of segments is of this cluster only"

    other_store = tmp_path / "other store"
    with OdradekProcess(tmp_path / "other", tiered.properties(other_store)) as other:
        assert odradek_command("restore", place, "-b", other.bootstrap).status == 0
        assert tiered.consume(other.bootstrap, COUNT - START, offset=START) == expected
        tiered.await_local_start(other.data_dir, COUNT // 2)
        eventually(lambda: tiered.remote_segments(other_store), what="segments are copied")
        assert tiered.consume(other.bootstrap, COUNT - START, offset=START) == expected
        for key, value in tiered.TIERED_TOPIC.items():
            assert config_of(other, key) == value


def config_of(broker: OdradekProcess, key: str) -> str | None:
    shown = odradek_command("config", "get", "topic", tiered.TOPIC, "-b", broker.bootstrap, "--output", "json")
    return next((one["value"] for one in shown.json if one["key"] == key), None)


def test_restore_to_a_cluster_without_tiered_storage_writes_nothing(
    broker: OdradekProcess, folder: Path, tmp_path: Path
) -> None:
    tiered.make_topic(broker.bootstrap)
    tiered.produce(broker.bootstrap, tiered.values_of(100))
    place = str(tmp_path / "backup")
    assert odradek_command("backup", place, "-b", broker.bootstrap).status == 0
    with OdradekProcess(tmp_path / "plain") as plain:
        done = odradek_command("restore", place, "-b", plain.bootstrap)
        assert done.status != 0 and "Tiered Storage functionality is disabled" in done.err
        assert tiered.TOPIC not in AdminClient({"bootstrap.servers": plain.bootstrap}).list_topics(timeout=30).topics
