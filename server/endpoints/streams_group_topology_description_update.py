"""StreamsGroupTopologyDescriptionUpdate (key 93), version 0: the description of a streams group's topology (KIP-1331).

Answered in `coordinator/groups/streams/description.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..coordinators.streams_topics import streams_groups_precondition
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    precondition=streams_groups_precondition,
    authorization=(on_group(),),
    place=GROUP_COORDINATOR,
)
