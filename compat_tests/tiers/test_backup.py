"""A backup of a tiered topic has what only the store has; a restored one is tiered from its first record on."""

from __future__ import annotations

import random
import shutil
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


def copied_node(broker: OdradekProcess, place: Path, store: Path) -> OdradekProcess:
    """Returns a broker, which is not started, on a copy of the directory of a stopped one."""
    shutil.copytree(broker.data_dir, place / "data")
    return OdradekProcess(place, tiered.properties(store))


def filled(broker: OdradekProcess) -> list[bytes]:
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    return values


def checked(broker: OdradekProcess, store: Path) -> list[dict[str, object]]:
    """Returns what `odradek tier check` finds."""
    config = broker.directory / "tier.properties"
    config.write_text(f"remote.log.storage.manager.class.name={tiered.STORE_CLASS}\nrsm.config.dir={store}\n")
    found: list[dict[str, object]] = odradek_command(
        "tier", "check", "--config", str(config), "-b", broker.bootstrap, "--output", "json"
    ).json
    return found


def test_copy_of_a_stopped_nodes_directory_and_of_its_store_is_whole(
    broker: OdradekProcess, folder: Path, tmp_path: Path
) -> None:
    values = filled(broker)
    broker.stop()
    store = tmp_path / "copy of the store"
    shutil.copytree(folder, store)
    copy = copied_node(broker, tmp_path / "copy", store)
    shutil.rmtree(folder)
    with copy:
        assert tiered.consume(copy.bootstrap, COUNT) == tiered.numbered(values)
        assert checked(copy, store) == []
        tiered.produce(copy.bootstrap, tiered.values_of(COUNT, COUNT))
        tiered.await_local_start(copy.data_dir, COUNT + COUNT // 2)
        assert tiered.consume(copy.bootstrap, 2 * COUNT) == tiered.numbered(tiered.values_of(2 * COUNT))


def test_old_copy_of_a_directory_misses_what_was_deleted_from_the_store_since(
    broker: OdradekProcess, folder: Path, tmp_path: Path
) -> None:
    values = filled(broker)
    broker.stop()
    copy = copied_node(broker, tmp_path / "copy", folder)
    broker.start()
    tiered.produce(broker.bootstrap, tiered.values_of(COUNT, COUNT))
    tiered.await_local_start(broker.data_dir, COUNT + COUNT // 2)
    before = len(tiered.remote_segments(folder))
    delete_records(broker, COUNT // 2)
    eventually(lambda: len(tiered.remote_segments(folder)) < before, what="a segment is deleted", deadline_s=180)
    broker.stop()
    first = int(tiered.remote_segments(folder)[0].name[:20])
    assert 0 < first <= COUNT // 2
    with copy:
        assert any(one["kind"] == "missing" for one in checked(copy, folder))
        delete_records(copy, first)
        found = tiered.consume(copy.bootstrap, COUNT - first, offset=first, deadline_s=180)
        assert found == tiered.numbered(values)[first:]
        tiered.produce(copy.bootstrap, tiered.values_of(COUNT, COUNT))
        tiered.await_local_start(copy.data_dir, COUNT + COUNT // 2)
        later = tiered.numbered(tiered.values_of(2 * COUNT))[first:]
        assert tiered.consume(copy.bootstrap, 2 * COUNT - first, offset=first) == later


def delete_records(broker: OdradekProcess, offset: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition(tiered.TOPIC, 0): offset})
    admin.close()
