"""SyncGroup (key 14), versions 0-5: a member of a classic group gets its assignment.

Answered in `coordinator/groups/classic/join.py`, when the leader of the group has sent the assignments, however long it
takes.
"""

from __future__ import annotations

from ..access.authorization.requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ANY_TIME_MS, ApiEndpoint

ENDPOINT = ApiEndpoint(authorization=(on_group(),), place=GROUP_COORDINATOR, wanted_wait_ms=lambda request: ANY_TIME_MS)
