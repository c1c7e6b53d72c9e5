"""The response to a Produce: results of partitions, their leaders, and the end of a request without a response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.leader_id_and_epoch import LeaderIdAndEpoch
from ...protocol.messages.node_endpoints import NodeEndpoint
from ...protocol.messages.produce import BatchIndexAndErrorMessage, ProduceResponse

if TYPE_CHECKING:
    from ...protocol.messages.produce import PartitionProduceResponse, ProduceRequest
    from ..controller.leaders import Leaders
    from ..network.call import Call
    from ..partitions.append_result import AppendResult

WITH_LEADERS = ProduceResponse.versions_with("node_endpoints")

_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)

# Shared by all responses that say nothing there.
NO_RECORD_ERRORS: list[BatchIndexAndErrorMessage] = []
NO_LEADER = LeaderIdAndEpoch()
NO_NODES: list[NodeEndpoint] = []


def fill(partition: PartitionProduceResponse, result: AppendResult) -> None:
    """Fills in a result that came later; `append_batches` does the same for those that are there at once, for speed."""
    partition.error_code, partition.base_offset = result.error, result.base_offset
    partition.log_append_time_ms, partition.log_start_offset = result.log_append_time_ms, result.log_start_offset
    partition.error_message = result.error_message
    if result.record_errors:
        partition.record_errors = [BatchIndexAndErrorMessage(number, why) for number, why in result.record_errors]


def add_leaders(leaders: Leaders, call: Call[ProduceRequest], response: ProduceResponse) -> None:
    """Adds the current leaders to a response with NOT_LEADER_OR_FOLLOWER (KIP-951)."""
    if call.version not in WITH_LEADERS:
        return
    nodes: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code == _NOT_LEADER_OR_FOLLOWER:
                leader = leaders.current_leader(call.listener, topic.name or topic.topic_id, partition.index)
                partition.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
                if leader.node is not None:
                    nodes[leader.id] = NodeEndpoint(*leader.node)
    response.node_endpoints = list(nodes.values())


def end_unanswered(call: Call[ProduceRequest], response: ProduceResponse) -> None:
    """With acks=0 an error is reported by closing the connection."""
    call.reply_nothing()
    errors = {
        f"{topic.name or topic.topic_id.hex()}-{partition.index}": ErrorCode(partition.error_code).name
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    }
    if errors:
        call.connection.close_for(f"a Produce with acks=0 failed: {errors}")
