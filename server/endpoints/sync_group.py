"""SyncGroup: a member of a classic group gets its assignment.

Answered in `coordinator/groups/classic/sync.py`, when the leader of the group has sent the assignments, however long it
takes.

Contract: `protocol/messages/sync_group.py`.
"""

from __future__ import annotations

from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ANY_TIME_MS, ApiEndpoint

ENDPOINT: ApiEndpoint[SyncGroupRequest, SyncGroupResponse] = ApiEndpoint(
    authorization=(on_group(),), place=GROUP_COORDINATOR, wanted_wait_ms=lambda request: ANY_TIME_MS
)
