"""A voter whose metadata was damaged while stopped fetches it from the quorum, and grants no vote before that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.messages.vote import VotePartitionRequest, VoteRequest, VoteTopicRequest
from odradek.server.controller.flushed_end import FlushedEnd

from compat_tests.wire import WireClient
from tests.hostile.damaged_quorum import (
    DAMAGES,
    bug_lines,
    common_metadata,
    data_of,
    halve_log,
    is_caught_up,
    log_position,
    new_lines,
    produce,
    strays,
)
from tests.server.harness.cluster_process import CLUSTER_ID, COMBINED, Cluster

pytestmark = pytest.mark.usefixtures("processes")

TOPICS = ["first", "second", "third"]
ALL = [[1, 2, 3]]

_names = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("quorum")
    with Cluster(
        directory,
        [COMBINED] * 3,
        controller_quorum_election_timeout_ms="400",
        controller_quorum_fetch_timeout_ms="800",
        controlled_shutdown_enable="false",
    ) as made:
        for name in TOPICS:
            made.create_topic(name, ALL)
            produce(made, name, b"a", b"b")
        yield made
        assert not bug_lines(made)


def check_whole(cluster: Cluster) -> None:
    """Checks that all nodes apply a new record, have the same metadata and serve every topic."""
    name = f"later-{next(_names)}"
    cluster.create_topic(name, ALL)
    end = max(FlushedEnd(data_of(node)).recorded.end_offset for node in cluster.nodes.values())
    cluster.until(lambda: is_caught_up(cluster, end), f"all voters reach offset {end}")
    assert len(common_metadata(cluster)) == 1
    for topic in [*TOPICS, name]:
        cluster.until(lambda topic=topic: all(cluster.partitions(topic, n) for n in cluster.nodes.values()), topic)
        assert produce(cluster, topic, b"c") >= (2 if topic in TOPICS else 0)
    assert not strays(cluster)


@pytest.mark.parametrize(
    ("damage", "is_killed", "number"),
    [
        ("flipped", False, 1),
        ("emptied", False, 2),
        ("removed", True, 3),
        ("quorum-state-rubbish", True, 1),
        ("epoch-raised", False, 2),
        ("epoch-raised", True, 3),
    ],
)
def test_damaged_voter_fetches_its_metadata_again(cluster: Cluster, damage: str, is_killed: bool, number: int) -> None:
    node, (work, words) = cluster.nodes[number], DAMAGES[damage]
    if is_killed:
        node.kill()
    else:
        assert node.stop() == 0
    work(node)
    position = log_position(node)
    node.start()
    reported = [line for line in new_lines(node, position) if words in line]
    assert len(reported) == 1, new_lines(node, position)
    check_whole(cluster)


def grants(cluster: Cluster, number: int, candidate: int, epoch: int, last_epoch: int, end_offset: int) -> bool:
    """Returns whether a voter would grant a candidate with that log its vote; a pre-vote grants none."""
    part = VotePartitionRequest(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=bytes(16),
        voter_directory_id=bytes(16),
        last_offset_epoch=last_epoch,
        last_offset=end_offset,
        pre_vote=True,
    )
    request = VoteRequest(CLUSTER_ID, number, [VoteTopicRequest("__cluster_metadata", [part])])
    with WireClient(f"127.0.0.1:{cluster.controller_ports[number]}", timeout=60) as client:
        response = client.call(request, 2)
    assert not response.error_code, response
    (found,) = response.topics[0].partitions
    assert not found.error_code, response
    return bool(found.vote_granted)


def test_voter_without_its_log_elects_no_candidate_with_a_shorter_log(cluster: Cluster) -> None:
    damaged, lagging, whole = (cluster.nodes[number] for number in (1, 2, 3))
    lagging.kill()
    name = f"committed-{next(_names)}"
    cluster.create_topic(name, [[1, 3]])
    damaged.kill()
    whole.kill()
    had, lag = FlushedEnd(data_of(damaged)).recorded, FlushedEnd(data_of(lagging)).recorded
    assert lag.end_offset < had.end_offset
    halve_log(damaged)
    damaged.begin()
    try:
        epoch = had.epoch + 1

        def asked() -> list[bool]:
            return [grants(cluster, 1, 2, epoch, lag.epoch, lag.end_offset)]

        assert cluster.until(asked, "the controller listens") == [False]
        assert grants(cluster, 1, 3, epoch, had.epoch, had.end_offset)
    finally:
        lagging.begin()
        whole.begin()
        for node in (damaged, lagging, whole):
            node.await_serving()
    assert all(cluster.partitions(name, node) for node in cluster.nodes.values())
    check_whole(cluster)


def test_two_damaged_voters_recover_from_a_third_without_quorum_state(cluster: Cluster) -> None:
    damages = {1: "flipped", 2: "quorum-state-removed", 3: "flipped"}
    positions = {}
    for node in cluster.nodes.values():
        node.kill()
    for number, damage in damages.items():
        DAMAGES[damage][0](cluster.nodes[number])
        positions[number] = log_position(cluster.nodes[number])
    cluster.start_all()
    for number, damage in damages.items():
        lines = new_lines(cluster.nodes[number], positions[number])
        assert any(DAMAGES[damage][1] in line for line in lines), lines
    check_whole(cluster)
