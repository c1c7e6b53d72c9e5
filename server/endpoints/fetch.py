"""Fetch (key 1), versions 4-18.

Version 7 brought sessions (KIP-227, `server/data_path/fetch_sessions.py`), 13 topic ids (KIP-516).
`server/data_path/fetch.py` decides which records are read, how many, and when a response is due. An unknown session, a
wrong epoch of it, or one begun with names and continued with ids is an error for the whole request; every other error
is a partition's, from version 16 with its current leader (KIP-951).

On the listeners of controllers there is one thing to fetch, the metadata log, and it is the quorum's affair (KIP-595).

With read_committed only what is below the last stable offset is given, with the aborted transactions in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ...protocol.encoded_fetch import decode_large
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchResponse
from ..access.authorization.requirements import OF_NODES, Each, NeedsOn
from ..data_path.fetch import FIRST_VERSION_WITH_REPLICA_STATE, Fetch, FollowerFetch, ThrottledFetch
from ..data_path.fetch_sessions import INITIAL_EPOCH, LARGE_FETCH, FetchContext, is_large_fetch
from ..data_path.subsystem import FetchAuthorization
from ..network.api_endpoint import ApiEndpoint, Cost
from ..network.call import CONTROLLER

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from ..data_path.subsystem import FetchPath
    from ..network.call import Call, CostMeter
    from ..services import Services


def handle(services: Services, call: Call) -> Message | None:
    if call.listener_kind == CONTROLLER:
        services.controller.driver.quorum_request(call, call.request)
        return None
    request, path = call.request, services.data_path.fetch
    state = request.replica_state
    is_follower = (request.replica_id if call.version < FIRST_VERSION_WITH_REPLICA_STATE else state.replica_id) >= 0
    if request.session_epoch > INITIAL_EPOCH and not request.topics and not request.forgotten_topics_data:
        context = path.sessions.go_on(request, call.version, path.clock.now_ms(), call.connection)
    elif is_large_fetch(request):
        from ..data_path.large_fetch import open_and_fetch

        open_and_fetch(path, call, is_follower=is_follower)
        return None
    else:
        context = path.sessions.open_at_once(request, call.version, path.clock.now_ms(), call.connection)
    if isinstance(context, ErrorCode):
        return FetchResponse(error_code=context)
    if len(context.partitions) > LARGE_FETCH and _looks_at_many(context):
        from ..data_path.large_fetch import fetch

        fetch(path, call, context, is_follower=is_follower)
        return None
    if call.observer is not None and call.observer.meter is not None:
        return _metered(path, call, call.observer.meter, context, is_follower=is_follower)
    if is_follower:
        return FollowerFetch(path, call, context).start()
    return Fetch(path, call, context).start()


def _metered(
    path: FetchPath, call: Call, meter: CostMeter, context: FetchContext, *, is_follower: bool
) -> FetchResponse | None:
    """Fetches while there are quotas, which do not hold for followers."""
    if is_follower:
        call.exempt()
        return FollowerFetch(path, call, context).start()
    return ThrottledFetch(path, call, meter, context).start()


def _looks_at_many(context: FetchContext) -> bool:
    """A session may have thousands of partitions, of which few are looked at."""
    session = context.session
    return session is None or not session.sets_idle_aside or len(session.active_partitions) > LARGE_FETCH


ENDPOINT = ApiEndpoint(
    handle=handle,
    authorization=(
        NeedsOn(CONTROLLER, OF_NODES),
        Each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, by=FetchAuthorization.denied),  # of followers
        Each(Operation.READ, ResourceType.TOPIC, by=FetchAuthorization.denied),
    ),
    is_sliced=True,
    encodes_many_whole=True,
    decode_large=decode_large,
    cost=Cost.FETCHED,
    wanted_wait_ms=lambda request: request.max_wait_ms,
)
