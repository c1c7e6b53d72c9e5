"""The leader of a tiered partition changes while the store holds its upload of a segment; then the upload goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from odradek.admin.connection import Connection
from odradek.cli.tier_metadata import RemoteMetadata
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from odradek.tiers.segment_metadata import COPY_SEGMENT_FINISHED, RemoteLogSegmentMetadata
from odradek.tiers.store import PartType

from compat_tests.cli.commands import odradek_command
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.recipes import eventually

from . import stores, tiered
from .cluster import (
    await_isr,
    await_local_start,
    await_other_leader,
    bootstrap,
    partition_state,
    reassign,
    tiered_cluster,
)

COUNT = 3000
DEADLINE_S = 60
_PREFERRED = 0
FIRST_PART, LOG = PartType.LEADER_EPOCHS.name, PartType.LOG.name


@pytest.fixture
def store_class() -> dict[str, str]:
    return stores.IMPATIENT


@pytest.fixture
def cluster(tmp_path: Path, folder: Path, store_class: dict[str, str]) -> Iterator[MixedCluster]:
    with tiered_cluster(tmp_path, folder, store_class) as made:
        yield made


def elect_another(cluster: MixedCluster, leader: int) -> None:
    """Changes the order of the replicas, and elects the first one."""
    order = [*(node_id for node_id in cluster.nodes if node_id != leader), leader]
    named = ReassignableTopic(tiered.TOPIC, [ReassignablePartition(0, order)])
    done = cluster.ask_any(AlterPartitionReassignmentsRequest(topics=[named]), 0)
    assert not done.error_code and not done.responses[0].partitions[0].error_code, done
    request = ElectLeadersRequest(_PREFERRED, topic_partitions=[ElectLeadersTopic(tiered.TOPIC, [0])])

    def is_elected() -> bool:
        cluster.ask_any(request, 2)
        return partition_state(cluster)[0] == order[0]

    eventually(is_elected, what=f"{order[0]} leads", deadline_s=DEADLINE_S)


def take_replica(cluster: MixedCluster, leader: int) -> None:
    """Leaves the partition to the other brokers, so that the leader deletes its log."""
    reassign(cluster, [node_id for node_id in cluster.nodes if node_id != leader])


def kill(cluster: MixedCluster, leader: int) -> None:
    cluster.nodes[leader].kill()
    await_other_leader(cluster, leader)


def held_upload(cluster: MixedCluster, folder: Path, where: str) -> RemoteLogSegmentMetadata:
    """Has the store hold an upload of the partition's leader at a place. Returns its segment."""
    tiered.make_topic(bootstrap(cluster), replication=3, min_insync_replicas="2")
    tiered.produce(bootstrap(cluster), tiered.values_of(COUNT))
    tiered.await_remote(folder, 2)
    (folder / stores.HOLD_UPLOAD).write_text(where)
    tiered.produce(bootstrap(cluster), tiered.values_of(COUNT, COUNT))
    held = folder / stores.HELD
    eventually(held.exists, what=f"the store holds an upload at {where}", deadline_s=DEADLINE_S)
    return segments(cluster)[held.read_bytes()]


def segments(cluster: MixedCluster) -> dict[bytes, RemoteLogSegmentMetadata]:
    """Returns the segments of the partition by id, as `__remote_log_metadata` has them now."""
    metadata = RemoteMetadata(Connection({"bootstrap.servers": bootstrap(cluster)}))
    metadata.read()
    return {
        one.segment_id: one
        for partition, cache in metadata.caches().items()
        if partition.topic == tiered.TOPIC
        for one in cache.segments()
    }


def await_takeover(cluster: MixedCluster, held: RemoteLogSegmentMetadata, *, collected: bool = True) -> None:
    """Waits until the new leader has copied the segment of the held upload itself, and has deleted the held one."""

    def is_taken_over() -> bool:
        found = segments(cluster)
        return (held.segment_id not in found or not collected) and any(
            one.start_offset <= held.start_offset and one.end_offset >= held.end_offset
            for one in found.values()
            if one.state is COPY_SEGMENT_FINISHED and one.segment_id != held.segment_id
        )

    eventually(is_taken_over, what="the new leader has copied the segment", deadline_s=DEADLINE_S)


def go_on(folder: Path) -> None:
    (folder / stores.HELD).unlink()
    eventually((folder / stores.UPLOAD_ENDED).exists, what="the held upload ends", deadline_s=DEADLINE_S)


def check_whole(cluster: MixedCluster, folder: Path, held: RemoteLogSegmentMetadata) -> None:
    """Every record is read through the store, which has what the metadata names and nothing else."""
    leader = partition_state(cluster)[0]
    more = tiered.values_of(COUNT, 2 * COUNT)
    tiered.produce(bootstrap(cluster), more)
    await_local_start(cluster, leader, 2 * COUNT)
    values = tiered.numbered(tiered.values_of(3 * COUNT))
    assert tiered.consume(bootstrap(cluster), 3 * COUNT) == values
    config = folder.with_name("tier.properties")
    config.write_text(f"remote.log.storage.manager.class.name={tiered.STORE_CLASS}\nrsm.config.dir={folder}\n")
    found: list[object] = []

    def is_whole() -> bool:
        words = ("tier", "check", "--config", str(config), "-b", bootstrap(cluster), "--output", "json")
        found[:] = [*json.loads(odradek_command(*words).out), *(folder / "odradek-uploads").iterdir()]
        return not found

    try:
        eventually(is_whole, what="the store has what the metadata names", deadline_s=DEADLINE_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None
    one = segments(cluster).get(held.segment_id)
    assert one is None or one.state is not COPY_SEGMENT_FINISHED, "the upload of the former leader is used"
    finished = [one for one in segments(cluster).values() if one.state is COPY_SEGMENT_FINISHED]
    assert len(tiered.remote_segments(folder)) == len(finished), "an object of another segment is left"


@pytest.mark.parametrize("where", [FIRST_PART, LOG, stores.END_OF_UPLOAD])
@pytest.mark.parametrize("change", [elect_another, take_replica])
def test_upload_that_goes_on_after_its_deletion_by_the_new_leader_leaves_no_object(
    cluster: MixedCluster, folder: Path, change: Callable[[MixedCluster, int], None], where: str
) -> None:
    held = held_upload(cluster, folder, where)
    change(cluster, partition_state(cluster)[0])
    await_takeover(cluster, held)
    go_on(folder)
    check_whole(cluster, folder, held)


@pytest.mark.parametrize("store_class", [stores.HELD_UPLOAD])
@pytest.mark.parametrize("change", [elect_another, take_replica])
def test_upload_that_ends_before_its_deletion_by_the_new_leader_is_not_used(
    cluster: MixedCluster, folder: Path, change: Callable[[MixedCluster, int], None]
) -> None:
    held = held_upload(cluster, folder, stores.END_OF_UPLOAD)
    change(cluster, partition_state(cluster)[0])
    await_takeover(cluster, held, collected=False)
    go_on(folder)
    check_whole(cluster, folder, held)


@pytest.mark.parametrize("where", [LOG, stores.END_OF_UPLOAD])
def test_upload_of_a_killed_leader_is_deleted_by_the_new_one(cluster: MixedCluster, folder: Path, where: str) -> None:
    held = held_upload(cluster, folder, where)
    leader = partition_state(cluster)[0]
    kill(cluster, leader)
    (folder / stores.HELD).unlink()
    await_takeover(cluster, held)
    cluster.nodes[leader].start()
    await_isr(cluster, [1, 2, 3])
    check_whole(cluster, folder, held)
