"""Restarts of a single node: its leaderships, and what a start and a stop write for each partition."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import odradek
import pytest
from odradek.metadata.image import PartitionImage
from odradek.protocol.internal.cluster_metadata import BrokerRegistrationChangeRecord
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.server.controller.metadata_batches import decode_batches
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.partitions import replicas_on_disk
from odradek.storage.files.use_mark import USE_FILE
from odradek.storage.log import loading
from odradek.storage.log.inventory import Inventory

from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
from tests.server.harness.data_path import DataPath, batch_of, values_of

pytestmark = pytest.mark.usefixtures("sockets")

PARTITIONS = 60
#: Records of a stop and of a start, however many partitions there are: leader, registrations, unfencing.
MOST_RECORDS = 10


def state(broker: odradek.Broker, topic: str) -> tuple[int, dict[int, PartitionImage]]:
    """Returns the end of the metadata log, and the partitions of the topic."""
    found = broker.server.node.metadata.image.topic(topic)
    assert found is not None
    return broker.server.controller.driver.quorum_log.end_offset, dict(found.partitions)


def topic_of(broker: odradek.Broker) -> str:
    path = DataPath(broker)
    topic = path.topic(PARTITIONS)
    assert path.produce(topic, batch_of(b"first"), index=3).base_offset == 0
    path.close()
    return topic


def check_served(broker: odradek.Broker, topic: str) -> None:
    path = DataPath(broker)
    assert path.produce(topic, batch_of(b"second"), index=3).base_offset == 1
    assert values_of(path.fetch(topic, index=3)) == [b"first", b"second"]
    assert path.produce(topic, batch_of(b"other"), index=PARTITIONS - 1).base_offset == 0
    path.close()


def test_single_node_keeps_its_leaderships_over_a_clean_restart(tmp_path: Path) -> None:
    with odradek.Broker(data_dir=tmp_path) as broker:
        topic = topic_of(broker)
        end, partitions = state(broker, topic)
    with odradek.Broker(data_dir=tmp_path) as broker:
        end_again, partitions_again = state(broker, topic)
        assert partitions_again == partitions
        assert end_again - end <= MOST_RECORDS
        check_served(broker, topic)


def test_only_broker_is_fenced_after_a_clean_stop(tmp_path: Path) -> None:
    """Apache Kafka's controller then takes its next registration at once, see `compat_tests/cluster/test_single_node.py`."""
    ends: list[int] = []
    for _ in range(3):
        with odradek.Broker(data_dir=tmp_path) as broker:
            image = broker.server.node.metadata.image.cluster
            (registered,) = image.brokers.values()
            assert not registered.fenced and not registered.in_controlled_shutdown
            ends.append(broker.server.controller.driver.quorum_log.end_offset)
        log = (tmp_path / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
        *_, last = (record for batch in decode_batches(log, QuorumVoters()) for record in batch.records)
        assert last == BrokerRegistrationChangeRecord(
            broker_id=registered.id, broker_epoch=registered.epoch, fenced=1, in_controlled_shutdown=1
        )
    assert ends[2] - ends[1] <= MOST_RECORDS


def epochs(client: WireClient) -> dict[int, int]:
    """Returns the leader epoch of each partition that the node leads."""
    (topic,) = client.call(MetadataRequest([MetadataRequestTopic(bytes(16), "topic")]), 12).topics
    return {one.partition_index: one.leader_epoch for one in topic.partitions if one.leader_id == 1}


def epochs_before_and_after_a_kill(
    node: OdradekProcess, meanwhile: Callable[[], object]
) -> tuple[dict[int, int], dict[int, int]]:
    with node:
        with WireClient(node.bootstrap) as client:
            client.call(CreateTopicsRequest([CreatableTopic("topic", PARTITIONS, 1)], 10_000), 7)
            before = epochs(client)
        node.kill()
        meanwhile()
        node.start()
        with WireClient(node.bootstrap) as client:
            after = epochs(client)
    assert len(before) == len(after) == PARTITIONS
    return before, after


@pytest.mark.usefixtures("processes")
def test_single_node_leads_in_the_same_epochs_after_its_process_was_killed(tmp_path: Path) -> None:
    before, after = epochs_before_and_after_a_kill(OdradekProcess(tmp_path), lambda: None)
    assert after == before


def of_another_boot(mark: Path) -> None:
    (_, *folder), epoch = json.loads(mark.read_text())
    mark.write_text(json.dumps([["another boot", *folder], epoch]))


def of_another_broker(mark: Path) -> None:
    here, epoch = json.loads(mark.read_text())
    mark.write_text(json.dumps([here, epoch - 1]))


def copied_folder(mark: Path) -> None:
    shutil.copytree(mark.parent, mark.parent.with_name("copy"))
    shutil.rmtree(mark.parent)
    mark.parent.with_name("copy").rename(mark.parent)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("change", [of_another_boot, of_another_broker, copied_folder, Path.unlink])
def test_single_node_leads_in_new_epochs_when_records_may_be_lost(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    node = OdradekProcess(tmp_path)
    before, after = epochs_before_and_after_a_kill(node, lambda: change(node.data_dir / USE_FILE))
    assert all(after[index] > epoch for index, epoch in before.items())


def test_single_node_leads_in_new_epochs_after_its_log_directory_was_lost(tmp_path: Path) -> None:
    directories = {"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}
    with odradek.Broker(config=directories) as broker:
        topic = topic_of(broker)
        _, partitions = state(broker, topic)
    with odradek.Broker(config={"log.dirs": f"{tmp_path}/one"}) as broker:
        _, partitions_again = state(broker, topic)
        assert all(one.leader_epoch > partitions[index].leader_epoch for index, one in partitions_again.items())


def test_clean_start_looks_only_into_folders_that_were_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with odradek.Broker(data_dir=tmp_path) as broker:
        topic = topic_of(broker)
    (tmp_path / f"{topic}-7" / "note").touch()
    listed, named, inventory, read_if_exists = [], [], loading.take_inventory, replicas_on_disk.read_if_exists

    def take_inventory(path: str) -> Inventory:
        listed.append(Path(path).name)
        return inventory(path)

    def read(path: str) -> bytes | None:
        named.append(Path(path).parent.name)
        return read_if_exists(path)

    monkeypatch.setattr(loading, "take_inventory", take_inventory)
    monkeypatch.setattr(replicas_on_disk, "read_if_exists", read)
    with odradek.Broker(data_dir=tmp_path) as broker:
        assert [name for name in listed if topic in name] == [f"{topic}-7"]
        assert [name for name in named if topic in name] == [f"{topic}-7"]
        check_served(broker, topic)
    listed.clear()
    with odradek.Broker(data_dir=tmp_path) as broker:
        assert [name for name in listed if topic in name] == []
