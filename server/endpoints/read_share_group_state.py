"""ReadShareGroupState (key 84), version 0: the state of share partitions (KIP-932).

Brokers send it to the persister of share groups. Answered in `coordinator/share_state.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ..access.authorization.requirements import IN_GENERAL_WORDS, on_cluster
from ..network.api_endpoint import SHARE_STATE_PARTITIONS, ApiEndpoint
from ..share.share_groups import SHARE_STATE_COORDINATOR

ENDPOINT = ApiEndpoint(
    authorization=(on_cluster(Operation.CLUSTER_ACTION, IN_GENERAL_WORDS),),
    place=SHARE_STATE_COORDINATOR,
    portionings=SHARE_STATE_PARTITIONS,
)
