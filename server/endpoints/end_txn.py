"""EndTxn: commits or aborts a transaction (KIP-98, KIP-890).

Answered in `coordinator/transaction_ends.py`.

Contract: `protocol/messages/end_txn.py`.
"""

from __future__ import annotations

from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..access.authorization.usual_requirements import on_transactional_id
from ..coordinators.transaction_coordinator import TRANSACTION_COORDINATOR
from ..network.api_endpoint import ApiEndpoint

ENDPOINT: ApiEndpoint[EndTxnRequest, EndTxnResponse] = ApiEndpoint(
    authorization=(on_transactional_id(),), place=TRANSACTION_COORDINATOR
)
