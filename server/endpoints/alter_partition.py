"""AlterPartition: the leader of a partition changes its ISR (KIP-497).

Decided in `replication/controller/alter_partition.py`. A broker has 100,000 partitions at most, each with a few replicas.

Contract: `protocol/messages/alter_partition.py`.
"""

from __future__ import annotations

from ...protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import THIS_CONTROLLER
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import TOPIC_PARTITIONS

ENDPOINT: ApiEndpoint[AlterPartitionRequest, AlterPartitionResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
    portionings=TOPIC_PARTITIONS,
    most_items=100_000,
)
