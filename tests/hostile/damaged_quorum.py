"""A cluster of three whose nodes find damaged metadata when they start."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import iter_headers
from odradek.server.controller.metadata_log import DIRECTORY_NAME

from tests.hostile.attack_target import BUG_LINES
from tests.hostile.damaged_files import empty, halve, overwrite, segments_of
from tests.server.harness.cluster_process import Cluster, ClusterNode
from tests.server.harness.data_path import batch_of

#: Where the leader epoch is in a batch.
_EPOCH_AT = 12
RUBBISH = b"\x00rubbish\xff" * 9


def data_of(node: ClusterNode) -> Path:
    return Path(node.properties["log.dirs"])


def metadata_of(node: ClusterNode) -> Path:
    return data_of(node) / DIRECTORY_NAME


def flip_middle(node: ClusterNode) -> None:
    segment = segments_of(metadata_of(node))[-1]
    content = segment.read_bytes()
    at = len(content) // 2
    overwrite(segment, at, bytes([content[at] ^ 0x10]))


def raise_epoch(node: ClusterNode) -> None:
    """Flips a bit of the epoch of a batch in the middle, which no CRC covers: with it, the log would win each election."""
    segment = segments_of(metadata_of(node))[-1]
    batches = list(iter_headers(segment.read_bytes()))
    position, header = batches[len(batches) // 2]
    overwrite(segment, position + _EPOCH_AT, (header.leader_epoch ^ 0x10).to_bytes(4, "big"))


def halve_log(node: ClusterNode) -> None:
    halve(segments_of(metadata_of(node))[-1])


def empty_log(node: ClusterNode) -> None:
    empty(segments_of(metadata_of(node))[-1])


def remove_folder(node: ClusterNode) -> None:
    shutil.rmtree(metadata_of(node))


def spoil_quorum_state(node: ClusterNode) -> None:
    (metadata_of(node) / "quorum-state").write_bytes(RUBBISH)


def remove_quorum_state(node: ClusterNode) -> None:
    (metadata_of(node) / "quorum-state").unlink()


#: The damage to the node, and a part of the only line that the node logs about it.
DAMAGES: dict[str, tuple[Callable[[ClusterNode], None], str]] = {
    "flipped": (flip_middle, "the log is fetched again from the quorum"),
    "epoch-raised": (raise_epoch, "the log is fetched again from the quorum"),
    "halved": (halve_log, "fetched again from the quorum"),
    "emptied": (empty_log, "the rest is fetched again from the quorum"),
    "removed": (remove_folder, "the rest is fetched again from the quorum"),
    "quorum-state-rubbish": (spoil_quorum_state, "quorum-state: damaged"),
    "quorum-state-removed": (remove_quorum_state, "quorum-state: missing"),
}


def new_lines(node: ClusterNode, position: int) -> list[str]:
    """Returns the lines of the node's log after that position."""
    return node.log_file.read_bytes()[position:].decode(errors="replace").splitlines()


def log_position(node: ClusterNode) -> int:
    return node.log_file.stat().st_size if node.log_file.exists() else 0


def bug_lines(cluster: Cluster) -> list[str]:
    lines = [line for node in cluster.nodes.values() for line in new_lines(node, 0)]
    return [line for line in lines if any(words in line for words in BUG_LINES)]


def strays(cluster: Cluster) -> list[str]:
    return [path.name for node in cluster.nodes.values() for path in data_of(node).glob("*-stray")]


def quorum_ends(cluster: Cluster) -> dict[int, int]:
    """Returns each voter's log end offset, as the leader reports it."""
    request = DescribeQuorumRequest(
        [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
    )
    response = cluster.ask_any(request, 2)
    if response is None or response.error_code or not response.topics or response.topics[0].partitions[0].error_code:
        return {}
    return {voter.replica_id: voter.log_end_offset for voter in response.topics[0].partitions[0].current_voters}


def is_caught_up(cluster: Cluster, end: int) -> bool:
    ends = quorum_ends(cluster)
    return len(ends) == len(cluster.nodes) and min(ends.values()) >= end


def common_metadata(cluster: Cluster) -> set[bytes]:
    """Returns the metadata logs up to the end of the shortest; one element when they are equal."""
    logs = [b"".join(file.read_bytes() for file in segments_of(metadata_of(node))) for node in cluster.nodes.values()]
    shortest = min(map(len, logs))
    assert shortest
    return {log[:shortest] for log in logs}


def produce(cluster: Cluster, topic: str, *values: bytes, index: int = 0) -> int:
    """Produces a batch to the leader with acks=all, and retries without a leader or enough replicas. Returns its offset."""

    def appended() -> Any:
        leader = cluster.partitions(topic)[index].leader_id
        if leader not in cluster.nodes or not cluster.nodes[leader].is_running:
            return None
        part = PartitionProduceData(index, batch_of(*values))
        data = [TopicProduceData(name=topic, partition_data=[part])]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
        (response,) = cluster.nodes[leader].ask(request, 9).responses[0].partition_responses
        if response.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS):
            return None
        assert response.error_code == 0, ErrorCode(response.error_code).name
        return (response.base_offset,)

    (offset,) = cluster.until(appended, f"{topic} takes records")
    return int(offset)
