"""A request in progress: what its handler needs, the connection that its response goes to, and the code that follows it.

These are one noun: a connection parks and answers calls, an observer follows one, and a call has both.

- `CallRoute`, `RequestDispatch`, `ConnectionListener`, `ClientConnection`, `ClientIdentity`: the route of a call, and the
  client with its connection, as calls and handlers use them.
- `Observer`: code that follows a call, such as quotas (`CostMeter`). Times, and several in order: observers.py.
- `Call`: one request, from its frame to its response. `BoundHandle` answers it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from .response_fields import has_error_code, set_throttle_time
from .response_size import is_large
from .throttling import log_throttled
from .type_variables import CallRequest, HandledRequest

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.buffer import Buffer
    from ...protocol.codec import Encoder
    from ...protocol.schema import Request, ResponseT
    from ..access.authentication.gate import SaslGate
    from ..access.authorization.sessions import AuthorizationSession
    from ..access.quotas.sensors import Meters
    from ..runtime.counters import Times
    from .file_sender import Piece
    from .listener_kind import ListenerKind
    from .protocol_violation import ProtocolViolation
    from .response_size import Arrays
    from .shared_parts import SharedParts

log = logging.getLogger("odradek.dispatch")
_pack_head = struct.Struct(">ii").pack
_pack_flexible_head = struct.Struct(">iib").pack


class CallRoute(Protocol):
    """The `Route` of a call, which imports the endpoints and so is not named here."""

    #: Requests that failed by a bug of ours.
    failures: int

    @property
    def api(self) -> Api: ...
    @property
    def version(self) -> int: ...
    @property
    def response_version(self) -> int: ...
    @property
    def encode(self) -> Encoder[Any]: ...
    @property
    def flexible_response(self) -> bool: ...
    @property
    def arrays(self) -> Arrays: ...
    @property
    def times(self) -> Times: ...
    @property
    def is_exempt(self) -> bool: ...
    @property
    def is_served(self) -> bool: ...
    @property
    def endpoint(self) -> Any:
        """The `ApiEndpoint`."""


class RequestDispatch(Protocol):
    """The dispatcher of a connection: handles requests, also those that take several turns of the loop."""

    #: By key: the APIs that are served.
    served: dict[int, Api]

    @property
    def frame_bytes(self) -> int:
        """Bytes of the frame that is handled."""

    def call(self, connection: Any, frame: Buffer) -> None:
        """Handles one frame (without its length). Raises ProtocolViolation."""

    def handle(self, call: Call, route: CallRoute, handle: BoundHandle) -> None:
        """Has a handler answer the call, now or later. Raises ProtocolViolation."""

    def failed_later(self, call: Call, route: CallRoute, failure: Exception) -> None:
        """Ends a call of which a later slice failed."""

    def violation_of(self, frame: Buffer, error: Exception) -> ProtocolViolation:
        """Returns the violation in a frame that could not be decoded."""


class ConnectionListener(Protocol):
    """The listener of a connection."""

    kind: ListenerKind

    @property
    def shared(self) -> SharedParts:
        """The parts that all listeners of the node share."""


class ClientConnection(Protocol):
    """The connection of a client, as used by calls and by the code that answers them."""

    listener_name: str
    principal: str
    client_host: str
    client_id: str | None
    client_id_bytes: bytes | None
    closed: bool
    #: host:port of the client.
    remote_address: str
    #: The name and version of the client's library; None until its ApiVersions.
    software: tuple[str, str] | None
    #: See `Connection`.
    authorization: AuthorizationSession | None
    meters: Meters | None
    rejected_batches: Any
    sasl_gate: SaslGate | None
    is_token_authenticated: bool

    @property
    def listener(self) -> ConnectionListener:
        """The listener that accepted it."""

    @property
    def dispatcher(self) -> RequestDispatch:
        """The dispatcher of its requests."""

    def learn(self, raw: Buffer) -> str:
        """Returns the client id of a request's header, and keeps it for the next ones."""

    def park(self, call: Call) -> None:
        """Keeps a call that is answered later, and its place among the responses."""

    def answered(self, call: Call) -> None:
        """Sends the response of a call as soon as all before it are sent."""

    def reply_in_slices(self, call: Call, response: Message) -> None:
        """Encodes and sends a large response in turns of its own."""

    def hold(self, reason: Hashable) -> None:
        """Takes no request before `reason` is released."""

    def mute(self, time_ms: int) -> None:
        """Takes no request for that time."""

    def close_for(self, reason: str) -> None:
        """Closes the connection for a fault of the peer."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that wait for the peer."""

    @property
    def stuck_bytes(self) -> int:
        """Bytes of responses that wait for those of earlier requests."""

    @property
    def taken_bytes(self) -> int:
        """Bytes of responses that the peer has taken since the connection was opened."""

    def drop_for(self, reason: str) -> None:
        """Closes the connection for a fault of the peer, with all that waits for it."""


class ClientIdentity(Protocol):
    """The client of a request, as its handler sees it; a connection is one."""

    @property
    def principal(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def is_token_authenticated(self) -> bool: ...


class Observer:
    """Code that follows a call, or stands in for a part of it. Most calls have none, and pay nothing for the slot.

    Methods that return a bool return whether the call goes on in its own way.
    """

    __slots__ = ()

    #: The recorder of the call's cost; None where no client has a quota.
    meter: CostMeter | None = None
    #: Whether a large response is encoded in slices; not where it becomes a part of another one.
    may_reply_in_slices = True

    def parked(self, call: Call) -> None:
        """The handler has returned, or goes on in turns."""

    def replying(self, call: Call, response: Message | None) -> bool:
        """There is a response, which is not encoded yet; None where the protocol gives none."""
        return True

    def deferred(self, call: Call) -> None:
        """The response is encoded in later turns."""

    def replied(self, call: Call) -> None:
        """The response is with the connection."""

    def finishing(self, call: Call, pieces: list[Piece]) -> bool:
        """The response is encoded."""
        return True

    def failing(self, call: Call) -> bool:
        """The request has failed by a bug."""
        return True

    def holding(self, call: Call) -> bool:
        """The connection is to take no further request before the response."""
        return True

    def exempt(self) -> None:
        """No quota holds for the request."""


class CostMeter(Observer):
    """Records the cost of a call while clients have quotas (metering.py)."""

    __slots__ = ()

    def most_fetched_bytes(self) -> float:
        """Returns the most bytes of records that the client may fetch now."""
        raise NotImplementedError

    def throttles_fetch(self, call: Call, size: int) -> bool:
        """Records a response of `size` bytes. Returns True if it may not be sent now; then it is not recorded."""
        raise NotImplementedError

    def spent(self, call: Call, seconds: float) -> None:
        """Counts time that the call took in a later turn of the loop."""
        raise NotImplementedError


class Call(Generic[CallRequest]):
    """A request in progress: the data that the handler needs, and the connection that its response goes to."""

    __slots__ = (
        "_flexible",
        "api",
        "arrays",
        "client",
        "client_id",
        "connection",
        "correlation_id",
        "encode",
        "has_failed",
        "is_parked",
        "observer",
        "on_departure",
        "pieces",
        "request",
        "route",
        "size",
        "throttle_time_ms",
        "version",
    )

    def __init__(
        self,
        connection: ClientConnection,
        route: CallRoute,
        correlation_id: int,
        client_id: str | None,
        request: CallRequest,
    ) -> None:
        self.connection = connection
        #: The client that the request is of; another one than that of the connection where a broker forwards it.
        self.client: ClientIdentity = connection
        #: Times it, records its cost, logs it, or takes its response; None for most calls.
        self.observer: Observer | None = None
        #: Called if the connection ends before the response: what waits for something then ends its wait.
        self.on_departure: Callable[[], object] | None = None
        self.api = route.api
        self.version = route.version
        self.correlation_id = correlation_id
        #: None when the client gave none.
        self.client_id = client_id
        #: The decoded message. Record batches in it are views of the receive buffer: they hold until the handler returns.
        self.request = request
        #: The response as buffers to be sent one after the other; None until there is one, empty for none at all.
        self.pieces: list[Piece] | None = None
        #: Bytes of the response.
        self.size = 0
        #: Whether the connection keeps it, to be answered later.
        self.is_parked = False
        #: Whether it was ended by a failure here.
        self.has_failed = False
        #: For how long the client is over a quota: `reply` sends it and mutes the connection (KIP-219).
        self.throttle_time_ms = 0
        self.route = route
        self.encode = route.encode
        self._flexible = route.flexible_response
        self.arrays = route.arrays

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it: "/127.0.0.1"."""
        return self.client.client_host

    @property
    def principal(self) -> str:
        return self.client.principal

    @property
    def is_token_authenticated(self) -> bool:
        """Returns whether the client has logged in with a delegation token."""
        return self.client.is_token_authenticated

    @property
    def listener(self) -> str:
        """The name of the listener that the request came through."""
        return self.connection.listener_name

    @property
    def listener_kind(self) -> ListenerKind:
        return self.connection.listener.kind

    @property
    def now_ms(self) -> int:
        return self.connection.listener.shared.clock.now_ms()

    def reply(self: Call[Request[ResponseT]], response: ResponseT) -> None:
        """Answers, once, now or later, in any order among the calls of a connection."""
        if self.pieces is not None or self.has_failed:
            self._respond_again()
            return
        observer = self.observer
        if observer is not None and not observer.replying(self, response):
            return
        if self.throttle_time_ms:
            self._throttle(response)
        if self.arrays and is_large(response, self.arrays):
            self.connection.reply_in_slices(self, response)
            if observer is not None:
                observer.deferred(self)
            return
        pieces: list[Piece] = [b""]
        try:
            self.encode(response, pieces.append)
        except Exception as failure:
            # The caller may be a timer, a commit or another request. The failure must not reach it.
            self._respond_unencodable(response, failure)
            return
        self.finish(pieces)

    def finish(self, pieces: list[Piece]) -> None:
        """Sends the encoded response, with the response's head in place of the first piece."""
        observer = self.observer
        if observer is not None and not observer.finishing(self, pieces):
            return
        size = 4 + self._flexible + sum(map(len, pieces))
        if self._flexible:
            pieces[0] = _pack_flexible_head(size, self.correlation_id, 0)
        else:
            pieces[0] = _pack_head(size, self.correlation_id)
        self.pieces = pieces
        self.size = size + 4
        self.connection.answered(self)
        if observer is not None:
            observer.replied(self)

    def announce_throttle(self, response: Message) -> None:
        """Throttles the client for a response that does not go through `reply`."""
        meter = None if self.observer is None else self.observer.meter
        if meter is not None:
            meter.replying(self, response)
            meter.deferred(self)
        if self.throttle_time_ms:
            self._throttle(response)

    def reply_forwarded(self, response: Message) -> None:
        """Answers with the controller's response, and throttles the client for the controller's throttle time."""
        self.throttle_time_ms = max(self.throttle_time_ms, getattr(response, "throttle_time_ms", 0))
        self.reply(response)

    def parked(self) -> None:
        """The connection keeps the call, which is answered later."""
        self.is_parked = True
        if self.observer is not None:
            self.observer.parked(self)

    def exempt(self) -> None:
        """The request is one of a broker, which no quota holds for."""
        if self.observer is not None:
            self.observer.exempt()

    def _throttle(self, response: Message) -> None:
        """Tells the client for how long its connection takes no request; the response itself is sent at once."""
        set_throttle_time(response, self.throttle_time_ms)
        self._mute()

    def _mute(self) -> None:
        connection = self.connection
        connection.mute(self.throttle_time_ms)
        log_throttled(connection.listener.shared.lines, connection.client_host, self.client_id, connection.principal)

    def reply_nothing(self) -> None:
        """Ends a call to which the protocol gives no response (Produce with acks=0)."""
        if self.pieces is not None or self.has_failed:
            self._respond_again()
            return
        observer = self.observer
        if observer is not None and not observer.replying(self, None):
            return
        if self.throttle_time_ms:
            self._mute()
        self.pieces = []
        self.connection.answered(self)
        if observer is not None:
            observer.replied(self)

    def fail(self) -> None:
        """Ends a request that failed: with UNKNOWN_SERVER_ERROR if the response has a field for an error of the whole
        request, otherwise by closing the connection. A response that comes later is discarded.
        """
        if self.pieces is not None or self.has_failed:
            return
        if self.observer is not None and not self.observer.failing(self):
            return
        response: Any = self.api.response()
        if has_error_code(response, self.version):
            response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            self.reply(response)
            self.has_failed = True
        else:
            self.has_failed = True
            self.connection.close_for(
                f"{self.api.name} failed because of a bug, and its response has no field for an error"
            )

    def _respond_unencodable(self, response: Message, failure: Exception) -> None:
        log.error("a bug: the response to %s v%s cannot be encoded", self.api.name, self.version, exc_info=failure)
        if getattr(response, "error_code", None) == ErrorCode.UNKNOWN_SERVER_ERROR:
            self.has_failed = True
            self.connection.close_for(f"the response to {self.api.name} cannot be encoded")
        else:
            self.fail()

    def _respond_again(self) -> None:
        """Checks that the first response has failed: it may have begun before the failure, and still come to its end."""
        assert self.has_failed, f"{self.api.name} had two responses"

    def hold_connection(self) -> None:
        """Takes no further request of this connection before this one is answered.

        For responses that may be large: without it a peer could park any number of them and have all completed at once.
        """
        if self.observer is None or self.observer.holding(self):
            self.connection.hold(self)


#: Answers a call, or has it answered later: the endpoint's handler, with its first argument bound.
BoundHandle = Callable[[Call[HandledRequest]], Message | None]
