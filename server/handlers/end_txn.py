"""EndTxn (key 26), versions 0-5. See coordinator/transactions/ends.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.transactions.submit(call.request.transactional_id, call.request, call.version, call, call.reply)
