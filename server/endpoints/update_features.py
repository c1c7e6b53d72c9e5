"""UpdateFeatures (key 57), versions 0-2: changes finalized features, such as `metadata.version` (KIP-584).

Decided in `replication/controller/features.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ..access.authorization.requirements import on_cluster
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    log_reserve=SMALL_RESERVE,
)
