"""RemoveRaftVoter (key 81), version 0: a voter leaves the quorum (KIP-853).

Answered in `replication/quorum/voter_changes.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ..access.authorization.requirements import IN_GENERAL_WORDS, on_cluster
from ..controller.driver import QUORUM_LEADER
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(
    authorization=(on_cluster(Operation.ALTER, IN_GENERAL_WORDS),),
    place=QUORUM_LEADER,
)
