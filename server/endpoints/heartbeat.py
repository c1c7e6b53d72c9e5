"""Heartbeat (key 12), versions 0-4: a member of a classic group is alive.

Answered in `coordinator/groups/classic/join.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(authorization=(on_group(),), place=GROUP_COORDINATOR)
