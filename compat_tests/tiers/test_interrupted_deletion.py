"""A deletion of what the store has of a topic goes on after the end of the broker that began it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from odradek.cli.client.exit_statuses import NOT_FOUND

from compat_tests.cli.commands import odradek_command
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually

from . import stores, tiered
from .cluster import bootstrap, partition_state, tiered_cluster

COUNT = 6000
#: All of its segments but the active one.
SEGMENTS = 5


@pytest.fixture
def properties(folder: Path) -> dict[str, str]:
    return stores.controlled(folder)


def delete_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    (done,) = admin.delete_topics([tiered.TOPIC]).values()
    done.result(30)


def await_first_deletion(folder: Path, before: int) -> None:
    """`before`: the segments that the store had when the deletion was asked for."""
    assert before >= SEGMENTS
    eventually(lambda: len(tiered.remote_segments(folder)) < before, what="a segment is deleted", deadline_s=60)


def await_empty(folder: Path) -> None:
    eventually(
        lambda: not [one for one in folder.rglob("*") if one.is_file()], what="the store is empty", deadline_s=60
    )


def fill(broker: OdradekProcess, folder: Path) -> int:
    """Returns the number of segments in the store."""
    tiered.make_topic(broker.bootstrap)
    tiered.produce(broker.bootstrap, tiered.values_of(COUNT))
    tiered.await_remote(folder, SEGMENTS)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    (folder / stores.HOLD_DELETIONS).touch()
    return len(tiered.remote_segments(folder))


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_deletion_of_a_topic_goes_on_after_the_broker_has_ended(broker: OdradekProcess, folder: Path, how: str) -> None:
    before = fill(broker, folder)
    delete_topic(broker.bootstrap)
    await_first_deletion(folder, before)
    getattr(broker, how)()
    (folder / stores.HOLD_DELETIONS).unlink()
    assert len(tiered.remote_segments(folder)) > 1
    broker.start()
    await_empty(folder)
    broker.stop()
    broker.start()
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)


def test_emptying_of_a_disabled_topic_goes_on_after_a_kill(broker: OdradekProcess, folder: Path) -> None:
    before = fill(broker, folder)
    tiered.alter(broker.bootstrap, remote_storage_enable="false", remote_log_delete_on_disable="true")
    await_first_deletion(folder, before)
    broker.kill()
    (folder / stores.HOLD_DELETIONS).unlink()
    assert len(tiered.remote_segments(folder)) > 1
    broker.start()
    await_empty(folder)


def addresses_without(cluster: MixedCluster, node_id: int) -> str:
    return ",".join(node.bootstrap for number, node in cluster.nodes.items() if number != node_id)


def delete_through(address: str) -> None:
    """Deletes the topic, also while another controller becomes active."""

    def is_deleted() -> bool:
        return odradek_command("topic", "delete", tiered.TOPIC, "--yes", "-b", address).status in (0, NOT_FOUND)

    eventually(is_deleted, what="the topic is deleted", deadline_s=120)


@pytest.fixture
def store_class() -> dict[str, str]:
    return stores.CONTROLLED


@pytest.fixture
def cluster(tmp_path: Path, folder: Path, store_class: dict[str, str]) -> Iterator[MixedCluster]:
    with tiered_cluster(tmp_path, folder, store_class) as made:
        yield made


def test_deletion_is_taken_over_from_a_leader_that_does_not_come_back(cluster: MixedCluster, folder: Path) -> None:
    tiered.make_topic(bootstrap(cluster), replication=3)
    tiered.produce(bootstrap(cluster), tiered.values_of(COUNT))
    leader, _, _ = partition_state(cluster)
    tiered.await_remote(folder, SEGMENTS)
    tiered.await_local_start(cluster.nodes[leader].log_dirs[0], COUNT // 2)
    (folder / stores.HOLD_DELETIONS).touch()
    before = len(tiered.remote_segments(folder))
    delete_through(addresses_without(cluster, leader))
    await_first_deletion(folder, before)
    cluster.nodes[leader].kill()
    (folder / stores.HOLD_DELETIONS).unlink()
    assert len(tiered.remote_segments(folder)) > 1
    await_empty(folder)


@pytest.mark.parametrize("store_class", [stores.SWEEPING])
def test_segments_of_a_topic_that_was_deleted_while_its_replicas_were_down_are_deleted(
    cluster: MixedCluster, folder: Path
) -> None:
    tiered.make_topic(bootstrap(cluster), replication=1)
    tiered.make_topic(bootstrap(cluster), replication=3, name="kept")
    for topic in (tiered.TOPIC, "kept"):
        tiered.produce(bootstrap(cluster), tiered.values_of(COUNT), topic=topic)
        tiered.await_remote(folder, 3, topic=topic)
    leader, _, _ = partition_state(cluster)
    cluster.nodes[leader].kill()
    delete_through(addresses_without(cluster, leader))
    eventually(lambda: not tiered.remote_segments(folder), what="its segments are deleted", deadline_s=90)
    cluster.nodes[leader].start()
    assert len(tiered.remote_segments(folder, topic="kept")) >= 3
    values = tiered.numbered(tiered.values_of(COUNT))
    assert tiered.consume(bootstrap(cluster), COUNT, topic="kept") == values
