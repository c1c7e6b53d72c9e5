"""AlterPartition (key 56), versions 2-3: the leader of a partition changes its ISR (KIP-497).

Decided in `replication/controller/alter_partition.py`. A broker has 100,000 partitions at most, each with a few replicas.
"""

from __future__ import annotations

from ..access.authorization.requirements import OF_NODES
from ..controller.driver import THIS_CONTROLLER
from ..network.api_endpoint import TOPIC_PARTITIONS, ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(OF_NODES,),
    place=THIS_CONTROLLER,
    portionings=TOPIC_PARTITIONS,
    most_items=100_000,
)
