"""The requests of a member of a streams group: one subtopology that reads one topic."""

from __future__ import annotations

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.streams_group_heartbeat import (
    HeartbeatSubtopology,
    HeartbeatTopology,
    StreamsGroupHeartbeatRequest,
)
from odradek.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    UpdatedTopologyDescription,
)

GROUP, MEMBER, TOPIC = "application", "member", "lines"
#: Errors after which clients, and this one, repeat a request.
LATER = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


def join() -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        topology=HeartbeatTopology(
            epoch=0, subtopologies=[HeartbeatSubtopology(subtopology_id="0", source_topics=[TOPIC])]
        ),
        process_id="process",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def describe(topology: UpdatedTopologyDescription) -> StreamsGroupTopologyDescriptionUpdateRequest:
    """Returns the request with the member's topology, in the words of `Topology.describe()` (KIP-1331)."""
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=GROUP, member_id=MEMBER, topology_epoch=0, topology_description=topology
    )
