"""StreamsGroupTopologyDescriptionUpdate 0 (KIP-1331): keeps `Topology.describe()` for StreamsGroupDescribe.

Apache Kafka passes descriptions to a plugin that its operators write in Java. Here the group keeps its description in
the record of its topology, under a tag that Kafka's schema does not have. Kafka skips unknown tags (KIP-482). So a
description is as durable as the group, moves with its coordinator, and is deleted with it. As in Kafka, the group's
metadata has the topology epoch of the stored description, and the epoch of a description that failed permanently.

Heartbeat responses request a missing description. The interval between two requests doubles each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.codec import decode, encode
from ....protocol.errors import ErrorCode
from ....protocol.internal.streams_group_records import StreamsGroupTopologyValue
from ....protocol.messages.streams_group_describe import (
    DescribedStreamsGroup,
    StreamsGroupDescribeResponse,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from ....protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    UpdatedTopologyDescription,
    UpdatedTopologyDescriptionNode,
)
from ...rejection import Rejection
from ...result import GroupRequest
from ..member_checks import first_error, invalid, no_group, unknown_member
from .group import NO_TOPOLOGY_EPOCH, DescriptionWait, StreamsGroup
from .writing import write_group_metadata, write_topology

if TYPE_CHECKING:
    from ..shard_state import ShardState

Request = StreamsGroupTopologyDescriptionUpdateRequest
#: A tag in StreamsGroupTopologyValue; Kafka numbers its own tags from 0. Its bytes are a StreamsGroupDescribeResponse
#: with only the description.
DESCRIPTION_TAG = 10_000
REPORTED_VERSION = 1
#: Version of the record that has the tag.
TOPOLOGY_VERSION = 0
SOURCE, PROCESSOR, SINK = 1, 2, 3
NOT_STORED, AVAILABLE = 1, 3
#: Kafka adds a jitter of up to a fifth in both directions.
FIRST_WAIT_MS, LONGEST_WAIT_MS = 30_000, 3_600_000


def asks(group: StreamsGroup, now_ms: int) -> bool:
    """Returns whether this heartbeat's response requests the description. Begins a wait before the next request."""
    topology, wait = group.topology, group.description_wait
    if topology is None or topology.epoch == group.metadata.failed_description_topology_epoch:
        return False
    if _stored(topology) is not None or (wait is not None and now_ms < wait.until_ms):
        return False
    ms = FIRST_WAIT_MS if wait is None else min(2 * wait.ms, LONGEST_WAIT_MS)
    group.description_wait = DescriptionWait(now_ms + ms, ms)
    return True


def _stored(topology: StreamsGroupTopologyValue) -> bytes | None:
    return None if topology.unknown_tags is None else topology.unknown_tags.get(DESCRIPTION_TAG)


def update(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, Request)
    validation_error = first_error((_names, _of_a_member, _of_its_topology, _known_nodes), state, request)
    if validation_error is None:
        validation_error = _keep(state, request)
    error, words = (ErrorCode.NONE, None) if validation_error is None else validation_error
    state.reply(message, StreamsGroupTopologyDescriptionUpdateResponse(error_code=error, error_message=words))


def _names(state: ShardState, request: Request) -> Rejection | None:
    if not request.member_id.strip():
        return invalid("MemberId can't be empty.")
    return None if request.group_id.strip() else invalid("GroupId can't be empty.")


def _of_a_member(state: ShardState, request: Request) -> Rejection | None:
    group = state.find(StreamsGroup, request.group_id)
    if group is None:
        return no_group(state.groups, request.group_id, StreamsGroup.kind, "Group")
    is_member = request.member_id in group.members
    return None if is_member else unknown_member(request.group_id, request.member_id)


def _of_its_topology(state: ShardState, request: Request) -> Rejection | None:
    group = state.find(StreamsGroup, request.group_id)
    topology = group.topology if group is not None else None
    epoch = NO_TOPOLOGY_EPOCH if topology is None else topology.epoch
    if request.topology_epoch == epoch:
        return None
    return invalid(
        f"Topology epoch {request.topology_epoch} does not match the group's current topology epoch {epoch}."
    )


def _known_nodes(state: ShardState, request: Request) -> Rejection | None:
    description = request.topology_description
    stores = description.global_stores
    nodes = [node for one in description.subtopologies for node in one.nodes]
    for node in (*nodes, *(node for store in stores for node in (store.source, store.processor))):
        if node.node_type not in (SOURCE, PROCESSOR, SINK):
            return invalid(f"Unknown topology node type: {node.node_type}")
    if all((store.source.node_type, store.processor.node_type) == (SOURCE, PROCESSOR) for store in stores):
        return None
    return invalid("Global store must be composed of a source and a processor node.")


def _keep(state: ShardState, request: Request) -> Rejection | None:
    group = state.find(StreamsGroup, request.group_id)
    assert group is not None and group.topology is not None, "it has a member, and the topology's epoch"
    reported = DescribedStreamsGroup(topology_description=_as_described(request.topology_description))
    reported.topology_description_status = AVAILABLE
    data = encode(StreamsGroupDescribeResponse(groups=[reported]), REPORTED_VERSION)
    topology = replace(group.topology, unknown_tags={**(group.topology.unknown_tags or {}), DESCRIPTION_TAG: data})
    limit = state.config.max_record_bytes
    if not state.can_store(topology, request.group_id, version=TOPOLOGY_VERSION):
        failed = replace(group.metadata, failed_description_topology_epoch=topology.epoch)
        write_group_metadata(state, group.group_id, failed)
        state.counters.descriptions_rejected += 1
        words = f"The description of the topology does not fit into a record of {limit} bytes."
        return Rejection(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, words)
    state.counters.descriptions_kept += 1
    if topology != group.topology:
        write_topology(state, group.group_id, topology)
        stored = replace(group.metadata, stored_description_topology_epoch=topology.epoch)
        write_group_metadata(state, group.group_id, stored)
    return None


def _as_described(description: UpdatedTopologyDescription) -> TopologyDescription:
    return TopologyDescription(
        subtopologies=[
            TopologyDescriptionSubtopology(subtopology_id=one.subtopology_id, nodes=[_node(node) for node in one.nodes])
            for one in description.subtopologies
        ],
        global_stores=[
            TopologyDescriptionGlobalStore(source=_node(one.source), processor=_node(one.processor))
            for one in description.global_stores
        ],
    )


def _node(node: UpdatedTopologyDescriptionNode) -> TopologyDescriptionNode:
    """Converts a node like Kafka's broker: only the fields of its type, and each name once."""
    return TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=_once(node.source_topics) if node.node_type == SOURCE else [],
        sink_topic=node.sink_topic if node.node_type == SINK else None,
        stores=_once(node.stores) if node.node_type == PROCESSOR else [],
        successors=_once(node.successors),
    )


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def deleted(state: ShardState, group: StreamsGroup) -> None:
    """Counts the description that is deleted with its group."""
    if group.topology is not None and _stored(group.topology) is not None:
        state.counters.descriptions_deleted += 1


def tell(state: ShardState, group: StreamsGroup, reported: DescribedStreamsGroup) -> None:
    stored = _stored(group.topology) if group.topology is not None else None
    reported.topology_description_status = NOT_STORED
    if stored is not None:
        state.counters.descriptions_reported += 1
        kept, _ = decode(StreamsGroupDescribeResponse, REPORTED_VERSION, stored)
        reported.topology_description = kept.groups[0].topology_description
        reported.topology_description_status = AVAILABLE
