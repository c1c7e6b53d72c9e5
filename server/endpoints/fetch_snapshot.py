"""FetchSnapshot: a part of a snapshot, for nodes whose log lags far (KIP-630).

Answered in `replication/quorum/leading.py`.

Contract: `protocol/messages/fetch_snapshot.py`.
"""

from __future__ import annotations

from ...protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.request_places import QUORUM
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[FetchSnapshotRequest, FetchSnapshotResponse] = ApiEndpoint(
    authorization=(OF_NODES,),
    place=QUORUM,
)
