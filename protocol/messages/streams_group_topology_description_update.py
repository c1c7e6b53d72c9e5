"""StreamsGroupTopologyDescriptionUpdate (key 93): a member hands in the description of its topology.

When a heartbeat asked for it; kept for StreamsGroupDescribe. STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED (KIP-1331).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class UpdatedTopologyDescriptionNode(Message):
    name: str = wire(STRING)
    node_type: int = wire(INT8)
    source_topics: list[str] = wire(array(STRING))
    sink_topic: str | None = wire(STRING, nullable="0+", default=None)
    stores: list[str] = wire(array(STRING))
    successors: list[str] = wire(array(STRING))


@struct
class UpdatedTopologyDescriptionSubtopology(Message):
    subtopology_id: str = wire(STRING)
    nodes: list[UpdatedTopologyDescriptionNode] = wire(array(UpdatedTopologyDescriptionNode))


@struct
class UpdatedTopologyDescriptionGlobalStore(Message):
    source: UpdatedTopologyDescriptionNode = wire(UpdatedTopologyDescriptionNode)
    processor: UpdatedTopologyDescriptionNode = wire(UpdatedTopologyDescriptionNode)


@struct
class UpdatedTopologyDescription(Message):
    subtopologies: list[UpdatedTopologyDescriptionSubtopology] = wire(array(UpdatedTopologyDescriptionSubtopology))
    global_stores: list[UpdatedTopologyDescriptionGlobalStore] = wire(array(UpdatedTopologyDescriptionGlobalStore))


@message("0", flexible="0+", key=93)
class StreamsGroupTopologyDescriptionUpdateRequest(Request["StreamsGroupTopologyDescriptionUpdateResponse"]):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    topology_epoch: int = wire(INT32)
    topology_description: UpdatedTopologyDescription = wire(UpdatedTopologyDescription)


@message("0", flexible="0+", key=93)
class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
