"""An API as a node serves it: one value in one file of `server/endpoints/`, named after the API.

The value declares the authorization of the request, its place, its limits and costs, and its handler. Nothing else in
`server/` names an API. Files are found by their names, so a start imports none of them; the first
request of an API has its file imported, on a thread, with all that its handler needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Generic, cast

from ...protocol.error_responses import error_response
from ...protocol.schema import Message, Request
from ..access.authorization.requirements import of_whole_request
from ..access.authorization.usual_requirements import OF_NODES
from .type_variables import Response, TakenRequest

if TYPE_CHECKING:
    from typing import Never

    from ...protocol.buffer import Buffer
    from ...protocol.errors import ErrorCode
    from ..access.authorization.requirements import Requirements, Sessions
    from .call import BoundHandle, Call
    from .portions import Portioning

#: Limit for any request: Kafka's own for one array, and some for the others. Decoded items take some 300 bytes each.
MAX_REQUEST_ITEMS = 1_200_000
#: The limit of requests whose items are decided together: what such a decision can process in the budget of a turn.
DEFAULT_ITEM_LIMIT = 10_000
#: Kafka refuses what takes more than 10,000 records of the metadata log: a request with more items cannot succeed.
CONTROLLER_ITEM_LIMIT = 20_000
#: Bytes that stay free on the disk of the metadata log after requests that make the metadata larger, and after all others
#: of clients. With DeleteTopics and the like an operator makes room.
LARGE_RESERVE, SMALL_RESERVE = 64 << 10, 16 << 10
#: The wait of a request that depends on other clients.
ANY_TIME_MS = 1 << 43


class Cost(Enum):
    """The cost that counts for a client's quota."""

    TIME = "the time that the request held the event loop"
    PRODUCED = "the bytes of the request, and its time"
    FETCHED = "the bytes of the records in the response, and the time of the request"
    NOTHING = "nothing: the request is one of brokers"


@dataclass(frozen=True, slots=True)
class Place(Generic[TakenRequest]):
    """Where an API is answered, and the handler that has it answered there. `words`: complete "It is answered by …"."""

    words: str
    #: As that of an endpoint.
    handle: Callable[[Never, Call[TakenRequest]], Message | None] | None = None
    #: Whether the active controller decides, and so authorizes the client that sent the request.
    is_controller: bool = False
    #: Whether a broker's Envelope may carry the request to the active controller.
    is_enveloped: bool = False


HERE: Place[Request] = Place("the node that takes the request")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiEndpoint(Generic[TakenRequest, Response]):
    """The contract of one API. Fields without a value have the usual one."""

    #: The requirements, in the order of the checks. An endpoint without any is not served.
    authorization: Requirements[TakenRequest]
    #: Where it is answered.
    place: Place[TakenRequest] = HERE
    #: Takes the parts of the node, of a class of the handler's choice, and the call. Returns the response, or None when
    #: `call.reply(response)` comes later. None: the handler of the place.
    handle: Callable[[Never, Call[TakenRequest]], Response | None] | None = None
    #: A check before the authorization. Returns an error of the whole request, NONE if there is none.
    precondition: Callable[[Never, Call[TakenRequest]], ErrorCode] | None = None
    #: Makes the response to a request that is rejected as a whole.
    reject: Callable[[Call[TakenRequest], ErrorCode, str | None], Response] | None = None
    #: Whether the node that takes the request checks the authorization, too, of what the active controller decides: its
    #: handler does work for the client before.
    is_authorized_twice: bool = False
    #: Whether clients that have logged in with a delegation token are refused.
    rejects_token_clients: bool = False

    # Bounds.

    #: How a request of many items is handled in portions: the first row that has items in the request applies, since
    #: their place depends on the version. Without one, all items are decided at once.
    portionings: tuple[Portioning, ...] = ()
    #: Whether the handler itself yields to the event loop.
    is_sliced: bool = False
    #: The most items of a request; a request with more ends its connection. None: the usual limit. An item is an element
    #: of an array anywhere in the request.
    most_items: int | None = None
    #: The records that a request makes the controller write. With more than fit in one batch, the controller refuses the
    #: request as a whole, as Kafka does, so it is handled as a whole.
    records_asked: Callable[[TakenRequest], int] | None = None
    #: Whether requests with many items are what brokers are made for: handler and codec bound the cost themselves.
    handles_many_whole: bool = False
    encodes_many_whole: bool = False

    #: Decodes the large requests of a kind faster: called with the version, the frame and the position of the request.
    #: Returns None for others, which are decoded in steps. What it returns has no views of the frame.
    decode_large: Callable[[int, Buffer, int], TakenRequest | None] | None = None

    # Costs and limits.

    #: The bytes that must stay free on the disk of the metadata log after its records; 0: it is written in any case.
    log_reserve: int = 0
    #: The cost that counts for a client's quota.
    cost: Cost = Cost.TIME
    #: The first version whose requests are held strictly to the quota of changes to topics (KIP-599); None: it makes none.
    strict_mutations_since: int | None = None
    #: How long the client lets the request wait, in ms: no part of what the log of slow requests shows.
    wanted_wait_ms: Callable[[TakenRequest], int] | None = None

    @property
    def item_limit(self) -> int:
        if self.most_items is not None:
            return self.most_items
        return MAX_REQUEST_ITEMS if self.portionings or self.is_sliced else DEFAULT_ITEM_LIMIT

    @property
    def is_of_nodes(self) -> bool:
        """Returns whether only nodes may send the request, about themselves."""
        return OF_NODES in self.authorization

    def rejection(self, call: Call[TakenRequest], error: ErrorCode, message: str | None = None) -> Message:
        """Returns the response to a request that fails as a whole."""
        if self.reject is not None:
            return self.reject(call, error, message)
        return error_response(call.api.response, call.version, call.request, error, message)

    def bound(self, services: object, authorizer: Sessions | None, listener_kind: str) -> BoundHandle[TakenRequest]:
        """Returns what the dispatcher of listeners of that kind calls: the handler, after the checks of this node.

        `services`: the parts of the node, of the class that the handler takes.
        """
        declared = self.handle or self.place.handle
        assert declared is not None, "neither the endpoint nor its place has a handler"
        handle: BoundHandle[TakenRequest] = partial(
            cast("Callable[[object, Call[TakenRequest]], Message | None]", declared), services
        )
        if authorizer is not None and (not self.place.is_controller or self.is_authorized_twice):
            handle = self._authorized(handle, authorizer, listener_kind)
        if self.precondition is not None:
            precondition = cast("Callable[[object, Call[TakenRequest]], ErrorCode]", self.precondition)
            handle = self._checked(handle, partial(precondition, services))
        return handle

    def _authorized(
        self, handle: BoundHandle[TakenRequest], authorizer: Sessions, listener_kind: str
    ) -> BoundHandle[TakenRequest]:
        """The dispatcher's runner of the requirements."""
        needs = of_whole_request(self.authorization, listener_kind)
        if not needs:
            return handle

        def authorized(call: Call[TakenRequest]) -> Message | None:
            session = authorizer.session(call)
            for need in needs:
                denial = need.denial(session, call)
                if denial is not None:
                    return self.rejection(call, denial.error, denial.message)
            return handle(call)

        return authorized

    def _checked(
        self, handle: BoundHandle[TakenRequest], precondition: Callable[[Call[TakenRequest]], ErrorCode]
    ) -> BoundHandle[TakenRequest]:
        def checked(call: Call[TakenRequest]) -> Message | None:
            error = precondition(call)
            return handle(call) if not error else self.rejection(call, error)

        return checked
