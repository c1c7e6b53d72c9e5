"""The listener of connections, as they see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..access.authentication.gate import SaslListener
    from ..access.principals import PrincipalBuilder
    from .dispatch import Dispatcher
    from .listener_kind import ListenerKind
    from .shared_parts import SharedParts


class Listening(Protocol):
    """The listener of connections, as they see it."""

    name: str
    kind: ListenerKind
    dispatcher: Dispatcher
    max_frame_bytes: int
    #: Makes the principals of clients; None for Kafka's default.
    principal_builder: PrincipalBuilder | None
    #: How clients authenticate; None for a listener without SASL.
    sasl: SaslListener | None
    #: All connections receive into one buffer.
    read_buffer: bytearray
    read_view: memoryview

    @property
    def shared(self) -> SharedParts:
        """The parts that all listeners of the node share."""

    def opened(self, connection: Any, transport: asyncio.Transport) -> None:
        """Counts a new connection, or ends it."""

    def limit_of(self, connection: Any) -> str:
        """Returns the key that limits the connection's frames, and its value, in words."""

    def lost(self, connection: Any) -> None:
        """Forgets a connection that has ended."""
