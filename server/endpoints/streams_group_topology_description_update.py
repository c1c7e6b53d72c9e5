"""StreamsGroupTopologyDescriptionUpdate: the description of a streams group's topology (KIP-1331).

Answered in `coordinator/groups/streams/description.py`.

Contract: `protocol/messages/streams_group_topology_description_update.py`.
"""

from __future__ import annotations

from ...coordinator.groups.share import kind as share_kind
from ...coordinator.groups.streams import kind
from ...protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR, streams_groups_precondition
from ..network.api_endpoint import ApiEndpoint

#: Imported with this file, on a thread. A shard takes all kinds of groups that it does not know at once (`Kinds.load_all`).
PRELOADED = (kind, share_kind)

ENDPOINT: ApiEndpoint[StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse] = (
    ApiEndpoint(
        precondition=streams_groups_precondition,
        authorization=(on_group(),),
        place=GROUP_COORDINATOR,
    )
)
