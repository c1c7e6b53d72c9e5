"""EndTxn (key 26), versions 0-5: commits or aborts a transaction (KIP-98, KIP-890).

Answered in `coordinator/transaction_shard.py`.
"""

from __future__ import annotations

from ..access.authorization.requirements import on_transactional_id
from ..coordinators.transaction_coordinator import TRANSACTION_COORDINATOR
from ..network.api_endpoint import ApiEndpoint

ENDPOINT = ApiEndpoint(authorization=(on_transactional_id(),), place=TRANSACTION_COORDINATOR)
