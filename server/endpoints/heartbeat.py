"""Heartbeat: a member of a classic group is alive.

Answered in `coordinator/groups/classic/heartbeat.py`.

Contract: `protocol/messages/heartbeat.py`.
"""

from __future__ import annotations

from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[HeartbeatRequest, HeartbeatResponse] = ApiEndpoint(
    authorization=(on_group(),), place=GROUP_COORDINATOR
)
