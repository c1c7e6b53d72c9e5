"""The dispatcher of a connection of a SASL listener: lets through what its authentication admits.

It stands before the listener's dispatcher until the client is authenticated, and is then taken away, unless the session
has an end (KIP-368). So an authenticated request costs nothing. The rules are in
`authentication.py`; handlers of SaslHandshake and SaslAuthenticate use the gate of their connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ....protocol.apis import Api
from ....protocol.errors import ErrorCode
from ....protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ....protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..principals import AuthenticationContext, NoPrincipal, built
from .authentication import (
    Authenticated,
    Authentication,
    Failure,
    Settings,
    State,
)
from .mechanism import Identity

if TYPE_CHECKING:
    from ....protocol.buffer import Buffer


_key_of = struct.Struct(">h").unpack_from
_pack_length = struct.Struct(">i").pack


Reply = Callable[[], None]
GatedRequest = TypeVar("GatedRequest", covariant=True)
GatedResponse = TypeVar("GatedResponse", contravariant=True)


class GatedDispatcher(Protocol):
    """The dispatcher of the listener, behind the gate."""

    #: By key: the APIs that are served.
    served: dict[int, Api]
    frame_bytes: int

    def call(self, connection: Any, frame: Buffer) -> None:
        """Handles one frame. Raises ProtocolViolation."""

    def handle(self, call: Any, route: Any, handle: Any) -> None:
        """Has a handler answer the call, now or later. Raises ProtocolViolation."""

    def failed_later(self, call: Any, route: Any, failure: Exception) -> None:
        """Ends a call of which a later slice failed."""

    def violation_of(self, frame: Buffer, error: Exception) -> Any:
        """Returns the violation in a frame that could not be decoded."""

    def validation_error(self, connection: Any, frame: Buffer, error_code: ErrorCode) -> Reply | None:
        """Returns what answers an unread frame with an error; None if its response has no field for one."""


class GatedConnection(Protocol):
    """The connection, as its gate sees it."""

    principal: str
    is_token_authenticated: bool
    #: "/127.0.0.1"
    client_host: str
    max_frame_bytes: int
    dispatcher: Any
    authorization: Any
    meters: Any
    closed: bool
    #: `Listening` of the network package.
    listener: Any

    def answered(self, call: Any) -> None:
        """Sends the response of a call as soon as all before it are sent."""

    def hold(self, reason: Hashable) -> None:
        """Takes no request before `reason` is released."""

    def close_for(self, reason: str) -> None:
        """Closes the connection for a fault of the peer."""


class GatedCall(Protocol[GatedRequest, GatedResponse]):
    """A call of SaslHandshake or SaslAuthenticate."""

    @property
    def request(self) -> GatedRequest: ...
    @property
    def version(self) -> int: ...

    def reply(self, response: GatedResponse) -> None:
        """Answers, once."""


class Outcomes:
    """Authentications of a listener that have ended."""

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0


class SaslListener(NamedTuple):
    """The SASL of a listener. `settings` is read for each connection: it follows dynamic configuration."""

    settings: Callable[[], Settings]
    max_receive_bytes: int
    failed_delay_ms: int
    outcomes: Outcomes

    def gate(self, connection: GatedConnection) -> SaslGate:
        """Returns the gate of a new connection."""
        return SaslGate(connection, self)


class _BareResponse:
    """The response to a token without a header: what `Connection` needs of a call."""

    __slots__ = ("is_parked", "pieces", "size")

    def __init__(self, token: bytes) -> None:
        self.pieces: list[bytes] = [_pack_length(len(token)), token]
        self.size = 4 + len(token)
        self.is_parked = False


class SaslGate:
    """The gate of one connection."""

    def __init__(self, connection: GatedConnection, listener: SaslListener) -> None:
        self.authentication = Authentication(listener.settings())
        self._listener = listener
        self._connection = connection
        self._dispatcher: GatedDispatcher = connection.listener.dispatcher
        self._now_ms: Callable[[], int] = connection.listener.shared.clock.now_ms
        self.served = self._dispatcher.served
        connection.max_frame_bytes = listener.max_receive_bytes
        self._is_renewed = False
        #: Makes what the builder of principals gets; set where the listener has one.
        self.context: Callable[[str, str, str], AuthenticationContext]

    # The part of a dispatcher that a connection and its calls use.

    @property
    def frame_bytes(self) -> int:
        return self._dispatcher.frame_bytes

    def handle(self, call: Any, route: Any, handle: Any) -> None:
        self._dispatcher.handle(call, route, handle)

    def failed_later(self, call: Any, route: Any, failure: Exception) -> None:
        self._dispatcher.failed_later(call, route, failure)

    def violation_of(self, frame: Buffer, error: Exception) -> Any:
        return self._dispatcher.violation_of(frame, error)

    def call(self, connection: GatedConnection, frame: Buffer) -> None:
        """Handles one frame. Raises ProtocolViolation."""
        authentication = self.authentication
        if authentication.takes_bare_tokens and authentication.state in (State.AUTHENTICATE, State.REAUTHENTICATE):
            self._take_bare_token(bytes(frame))
            return
        key = _key_of(frame)[0] if len(frame) >= 2 else -1
        try:
            authentication.admits(key, self._now_ms())
        except Failure as failure:
            self._reject(frame, failure)
            return
        self._dispatcher.call(connection, frame)

    # The part that handlers use.

    def handshake(self, call: GatedCall[SaslHandshakeRequest, SaslHandshakeResponse]) -> SaslHandshakeResponse | None:
        authentication = self.authentication
        mechanisms = list(authentication.settings.mechanisms)
        try:
            authentication.handshake(call.request.mechanism, call.version, self._now_ms())
        except Failure as failure:
            if authentication.state is State.COMPLETE:
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            response = SaslHandshakeResponse(error_code=failure.error_code or 0, mechanisms=mechanisms)
            self._end(failure, lambda: call.reply(response))
            return None
        self._connection.max_frame_bytes = self._listener.max_receive_bytes
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def authenticate(
        self, call: GatedCall[SaslAuthenticateRequest, SaslAuthenticateResponse]
    ) -> SaslAuthenticateResponse | None:
        try:
            done = self._evaluated(bytes(call.request.auth_bytes))
        except Failure as failure:
            code = failure.error_code or ErrorCode.SASL_AUTHENTICATION_FAILED
            response = SaslAuthenticateResponse(error_code=code, error_message=failure.shown)
            if self.authentication.state is State.COMPLETE:
                return response
            self._end(failure, lambda: call.reply(response))
            return None
        return SaslAuthenticateResponse(error_message="", auth_bytes=done.token, session_lifetime_ms=done.lifetime_ms)

    @property
    def is_authenticated(self) -> bool:
        """Returns whether the client has been authenticated once."""
        return self.authentication.is_again

    def api_versions_answered(self, error_code: int) -> None:
        self.authentication.api_versions_answered(error_code)

    # The rest.

    def _take_bare_token(self, token: bytes) -> None:
        try:
            done = self._evaluated(token)
        except Failure as failure:
            self._end(failure, None)
            return
        self._connection.answered(_BareResponse(done.token))

    def _evaluated(self, token: bytes) -> Authenticated:
        done = self.authentication.authenticate(token, self._now_ms())
        if self.authentication.state is State.COMPLETE:
            self._completed()
        return done

    def _completed(self) -> None:
        authentication, connection = self.authentication, self._connection
        identity = authentication.identity
        assert identity is not None
        connection.principal = self._principal(identity)
        connection.meters = connection.authorization = None  # those of the client before
        connection.is_token_authenticated = identity.is_token
        connection.max_frame_bytes = connection.listener.max_frame_bytes
        connection.dispatcher = self if authentication.session_ends_ms is not None else self._dispatcher
        self._listener.outcomes.successful += 1

    def _principal(self, identity: Identity) -> str:
        """Returns the principal of a client. Raises Failure where the listener's builder makes none, or another one for a
        session that is renewed.
        """
        connection, authentication = self._connection, self.authentication
        builder, principal = connection.listener.principal_builder, f"User:{identity.name}"
        if builder is None:
            return principal
        authorization_id = identity.authorization_id or identity.name
        try:
            principal = built(builder, self.context(principal, authentication.mechanism, authorization_id))
        except NoPrincipal as error:
            raise authentication.failed(str(error)) from None
        if self._is_renewed and principal != connection.principal:
            raise authentication.failed("it re-authenticates as another principal")
        self._is_renewed = True
        return principal

    def _reject(self, frame: Buffer, failure: Failure) -> None:
        """A frame that may not be taken: its body is not looked at."""
        code = failure.error_code
        self._end(failure, None if code is None else self._dispatcher.validation_error(self._connection, frame, code))

    def _end(self, failure: Failure, reply: Reply | None) -> None:
        """Ends the connection, with the reply before it; it takes nothing meanwhile."""
        self._listener.outcomes.failed += 1
        connection = self._connection
        connection.listener.shared.audit.failed_authentication(
            connection.client_host, connection.listener.name, self.authentication.mechanism, failure.words
        )
        connection.hold(self)

        def end() -> None:
            if connection.closed:
                return
            if reply is not None:
                reply()
            connection.close_for(f"failed authentication: {failure.words}")

        delay_ms = self._listener.failed_delay_ms if failure.is_delayed else 0
        asyncio.get_running_loop().call_later(delay_ms / 1000, end)
