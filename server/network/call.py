"""A request in progress, from its frame to its response."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from .response_fields import has_error_code, set_throttle_time
from .response_size import is_large
from .throttling import log_throttled
from .type_variables import CallRequest, HandledRequest

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.codec import Encoder
    from ...protocol.schema import Request, ResponseT
    from ..runtime.counters import Times
    from .client_connection import ClientConnection, ClientIdentity
    from .file_sender import Piece
    from .listener_kind import ListenerKind
    from .observers import Observer
    from .response_size import Arrays

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
