"""Controllers as processes, and the progress of their logs."""

from __future__ import annotations

from typing import Any

from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.uuids import uuid_from_text

from tests.server.harness.cluster_process import ClusterNode


def quorum(node: ClusterNode) -> Any:
    """Returns the leader's description of the quorum, requested through a broker; None without a leader."""
    request = DescribeQuorumRequest(
        [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
    )
    response = node.ask(request, 2)
    if response.error_code or response.topics[0].partitions[0].error_code:
        return None
    return response.topics[0].partitions[0]


def has_caught_up(said: Any, node_id: int) -> bool:
    if said is None:
        return False
    states = {state.replica_id: state for state in [*said.current_voters, *said.observers]}
    return node_id in states and states[node_id].log_end_offset == said.high_watermark > 0


def directory_of(node: ClusterNode) -> bytes:
    text = (node.data_dir / "meta.properties").read_text()
    return uuid_from_text(text.partition("directory.id=")[2].strip())
