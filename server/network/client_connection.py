"""The connection of a client, as calls and the code that answers them use it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.buffer import Buffer
    from ...protocol.schema import Message
    from ..access.authentication.gate import SaslGate
    from ..access.authorization.sessions import AuthorizationSession
    from ..access.quotas.sensors import Meters
    from .call import BoundHandle, Call, CallRoute
    from .listener_kind import ListenerKind
    from .protocol_violation import ProtocolViolation
    from .shared_parts import SharedParts


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

    def explained(self, frame: Buffer, error: Exception) -> ProtocolViolation:
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
