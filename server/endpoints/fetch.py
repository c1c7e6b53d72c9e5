"""Fetch: record batches for consumers, followers and the quorum.

`server/fetch/fetch_sessions.py` keeps the sessions (KIP-227). `server/fetch/fetch.py` decides which records are
read, how many, and when a response is due. An unknown session, a wrong epoch of it, or one begun with names and
continued with ids is an error for the whole request; every other error is a partition's, with its current
leader where the version has a field for it (KIP-951).

On the listeners of controllers there is one thing to fetch, the metadata log, and it is the quorum's affair (KIP-595).

With read_committed only what is below the last stable offset is given, with the aborted transactions in it.

Contract: `protocol/messages/fetch.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ...protocol.encoded_fetch import decode_large
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.session_epochs import INITIAL_EPOCH
from ..access.authorization.requirements import Each, NeedsOn
from ..access.authorization.usual_requirements import OF_NODES
from ..fetch.fetch import WITH_REPLICA_STATE, Fetch
from ..fetch.fetch_authorization import FetchAuthorization
from ..fetch.fetch_context import FetchContext
from ..fetch.fetch_sessions import LARGE_FETCH, is_large_fetch
from ..fetch.follower_fetch import FollowerFetch
from ..fetch.throttled_fetch import ThrottledFetch
from ..network.api_endpoint import ApiEndpoint, Cost
from ..network.listener_kind import CONTROLLER

if TYPE_CHECKING:
    from ..fetch.fetch_path import FetchPath
    from ..network.call import Call, CostMeter
    from ..services import Services


def handle(services: Services, call: Call[FetchRequest]) -> FetchResponse | None:
    if call.listener_kind == CONTROLLER:
        services.controller.driver.quorum_request(call, call.request)
        return None
    request, path = call.request, services.fetch.path
    state = request.replica_state
    is_follower = (request.replica_id if call.version not in WITH_REPLICA_STATE else state.replica_id) >= 0
    if request.session_epoch > INITIAL_EPOCH and not request.topics and not request.forgotten_topics_data:
        context = path.sessions.continue_session(request, call.version, path.clock.now_ms(), call.connection)
    elif is_large_fetch(request):
        from ..fetch.fetch_opening import open_and_fetch

        open_and_fetch(path, call, is_follower=is_follower)
        return None
    else:
        context = path.sessions.open_at_once(request, call.version, path.clock.now_ms(), call.connection)
    if isinstance(context, ErrorCode):
        return FetchResponse(error_code=context)
    if len(context.partitions) > LARGE_FETCH and (
        _looks_at_many(context)
        or not (is_follower or path.authorization is None or path.authorization.is_quick(context))
    ):
        from ..fetch.fetch_opening import fetch

        fetch(path, call, context, is_follower=is_follower)
        return None
    if call.observer is not None and call.observer.meter is not None:
        return _metered(path, call, call.observer.meter, context, is_follower=is_follower)
    if is_follower:
        return FollowerFetch(path, call, context).start()
    return Fetch(path, call, context).start()


def _metered(
    path: FetchPath, call: Call[FetchRequest], meter: CostMeter, context: FetchContext, *, is_follower: bool
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


ENDPOINT: ApiEndpoint[FetchRequest, FetchResponse] = ApiEndpoint(
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
