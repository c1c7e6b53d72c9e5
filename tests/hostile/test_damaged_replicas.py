"""Replicas whose data was damaged while they were stopped: no acknowledged record is lost, and all become equal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.messages.create_topics import CreatableTopicConfig
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from compat_tests.faults.replicas import differing, log_bytes
from tests.hostile.damaged_files import batches_in, empty, flip_payload, good_records, halve, remove, segments_of
from tests.hostile.damaged_quorum import bug_lines, data_of, produce, strays
from tests.server.harness.cluster_process import COMBINED, Cluster

pytestmark = pytest.mark.usefixtures("processes")

BATCHES = 24
CONFIGS = {
    "min.insync.replicas": "2",
    "internal.segment.bytes": "4096",
    "index.interval.bytes": "512",
    "retention.ms": "-1",
}

Damaging = Callable[[Path], None]


def on_last(work: Damaging) -> Damaging:
    return lambda folder: work([one for one in segments_of(folder) if one.stat().st_size][-1])


def on_sealed(work: Damaging) -> Damaging:
    return lambda folder: work(segments_of(folder)[1])


def cut_at_batch_without_checkpoints(folder: Path) -> None:
    """Truncates a log so that it looks whole, and removes every other file that shows its former end."""
    last = [one for one in segments_of(folder) if one.stat().st_size][-1]
    batches = batches_in(last)
    with last.open("r+b") as opened:
        opened.truncate(batches[len(batches) // 2][0])
    for path in folder.parent.glob("*-offset-checkpoint*"):
        path.unlink()
    for path in [*folder.glob("*.snapshot"), *folder.glob("*.index"), *folder.glob("*.timeindex")]:
        path.unlink()


#: Damage to the folder of one partition.
DAMAGES: dict[str, Damaging] = {
    "halved": on_last(halve),
    "removed": on_last(remove),
    "emptied": on_last(empty),
    "flipped-sealed": on_sealed(flip_payload),
    "folder-removed": shutil.rmtree,
    "unnoticed": cut_at_batch_without_checkpoints,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        tmp_path_factory.mktemp("replicas"),
        [COMBINED] * 3,
        controller_quorum_election_timeout_ms="400",
        controller_quorum_fetch_timeout_ms="800",
        replica_lag_time_max_ms="2000",
        odradek_scrub_interval_ms="300",
        odradek_scrub_bytes_per_second=str(64 << 20),
    ) as made:
        yield made
        assert not bug_lines(made)


def fill(cluster: Cluster, topic: str, count: int = BATCHES) -> dict[int, bytes]:
    """Produces batches. Returns the acknowledged values by offset."""
    sent = {}
    for number in range(count):
        value = b"%s-%04d-" % (topic.encode(), number) * 12
        sent[produce(cluster, topic, value)] = value
    return sent


def read(cluster: Cluster, topic: str, sent: dict[int, bytes]) -> dict[int, bytes]:
    got: dict[int, bytes] = {}

    def is_all() -> bool:
        leader = cluster.partitions(topic)[0].leader_id
        if leader not in cluster.nodes:
            return False
        at = max(got, default=-1) + 1
        part = FetchPartition(partition=0, fetch_offset=at, partition_max_bytes=1 << 20)
        request: Any = FetchRequest(
            max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[part])]
        )
        response = cluster.nodes[leader].ask(request, 11)
        (data,) = response.responses[0].partitions
        if not data.error_code:
            got.update(
                {offset: value for offset, value in good_records(bytes(data.records or b"")).items() if offset >= at}
            )
        return len(got) >= len(sent)

    cluster.until(is_all, f"{topic}: all acknowledged records are read")
    return got


def is_equal(cluster: Cluster, topic: str) -> bool:
    partition = cluster.partitions(topic)[0]
    return len(partition.isr_nodes) == 3 and not list(differing([data_of(n) for n in cluster.nodes.values()], topic, 1))


def check(cluster: Cluster, topics: dict[str, dict[int, bytes]]) -> None:
    for topic, sent in topics.items():
        assert read(cluster, topic, sent) == sent
        cluster.until(lambda topic=topic: is_equal(cluster, topic), f"{topic}: replicas are equal")
        assert log_bytes(data_of(cluster.nodes[1]) / f"{topic}-0")
    assert not strays(cluster)


def made(cluster: Cluster, prefix: str, first: int) -> dict[str, dict[int, bytes]]:
    """Creates a topic for each damage, led by `first`."""
    order = [first, *(number for number in (1, 2, 3) if number != first)]
    sent = {}
    for name in DAMAGES:
        topic = f"{prefix}-{name}"
        cluster.create_topic(
            topic, [order], configs=[CreatableTopicConfig(key, value) for key, value in CONFIGS.items()]
        )
        sent[topic] = fill(cluster, topic)
    return sent


def damage(cluster: Cluster, number: int, topics: dict[str, dict[int, bytes]]) -> None:
    for (topic, _), work in zip(topics.items(), DAMAGES.values(), strict=True):
        work(data_of(cluster.nodes[number]) / f"{topic}-0")


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_replica_damaged_while_others_serve_is_made_whole(cluster: Cluster, is_killed: bool) -> None:
    node = cluster.nodes[1]
    topics = made(cluster, f"one-{is_killed}", 1)
    if is_killed:
        node.kill()
    else:
        assert node.stop() == 0
    damage(cluster, 1, topics)
    node.start()
    check(cluster, topics)


def test_last_leader_damaged_after_a_clean_stop_loses_no_acknowledged_record(cluster: Cluster) -> None:
    """The damaged replica leaves last: a controller that trusted it would elect it before the others are back."""
    topics = made(cluster, "last", 3)
    for number in (1, 2, 3):
        cluster.nodes[number].stop()
    damage(cluster, 3, topics)
    for number in (3, 1):
        cluster.nodes[number].begin()
    for number in (3, 1):
        cluster.nodes[number].await_serving()
    cluster.nodes[2].start()
    check(cluster, topics)
