"""Fetch (key 1), versions 4-18.

Version 7 brought sessions (KIP-227, `fetch_sessions.py`), 13 topic ids (KIP-516). What is read, how much, and when an
answer is due is in `fetching.py`. An unknown session, a wrong epoch of it, or one begun with names and continued with
ids is an error for the whole request; everything else is told partition by partition, from version 16 with who leads
instead (KIP-951).

On the listeners of controllers there is one thing to fetch, the metadata log, and it is the quorum's affair (KIP-595).

With read_committed only what is below the last stable offset is given, with the aborted transactions in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchResponse
from ..fetching import FIRST_VERSION_WITH_REPLICA_STATE, Fetch

if TYPE_CHECKING:
    from ..dispatch import Call


def handle(call: Call) -> FetchResponse | None:
    broker = call.broker
    if call.connection.dispatcher is not broker.dispatcher:
        broker.controller.quorum_request(call, call.request)
        return None
    context = broker.fetch_sessions.open(call.request, call.version, broker.now_ms(), call.connection)
    if isinstance(context, ErrorCode):
        return FetchResponse(error_code=context)
    request = call.request
    if (
        request.replica_id if call.version < FIRST_VERSION_WITH_REPLICA_STATE else request.replica_state.replica_id
    ) >= 0:
        from ..follower_fetching import FollowerFetch

        return FollowerFetch(call, context).start()
    return Fetch(call, context).start()
