"""UpdateFeatures: changes finalized features, such as `metadata.version` (KIP-584).

Decided in `replication/controller/features.py`.

Contract: `protocol/messages/update_features.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ..access.authorization.usual_requirements import on_cluster
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint

ENDPOINT: ApiEndpoint[UpdateFeaturesRequest, UpdateFeaturesResponse] = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER),),
    place=ACTIVE_CONTROLLER,
    log_reserve=SMALL_RESERVE,
)
