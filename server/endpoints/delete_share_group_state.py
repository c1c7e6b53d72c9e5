"""DeleteShareGroupState: removes the state of share partitions (KIP-932).

Brokers send it to the persister of share groups. Answered in `coordinator/share_state_operations.py`.

Contract: `protocol/messages/delete_share_group_state.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from ..access.authorization.usual_requirements import IN_GENERAL_WORDS, on_cluster
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import SHARE_STATE_PARTITIONS
from ..share.share_preconditions import SHARE_STATE_COORDINATOR

ENDPOINT: ApiEndpoint[DeleteShareGroupStateRequest, DeleteShareGroupStateResponse] = ApiEndpoint(
    authorization=(on_cluster(Operation.CLUSTER_ACTION, IN_GENERAL_WORDS),),
    place=SHARE_STATE_COORDINATOR,
    portionings=SHARE_STATE_PARTITIONS,
)
