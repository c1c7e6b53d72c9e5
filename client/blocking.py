"""A connection that blocks until each response: for few requests of a short process, which would wait 40 ms for asyncio."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from ..protocol.apis import APIS
from ..protocol.codec import MalformedMessage
from ..protocol.errors import ErrorCode
from ..protocol.schema import Message
from .errors import LoginRejected, NoResponse
from .frames import correlation_id_of, request_frame, response_of, response_size

if TYPE_CHECKING:
    import ssl

    from .sasl import Login

#: A buffer grows by so much: with the bytes that arrive, not with the length that a peer promises.
_CHUNK_BYTES = 64 * 1024
#: SaslHandshake: tokens follow in SaslAuthenticate. Every broker with SaslAuthenticate has the first version of it.
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 0


class BlockingConnection:
    """Connects and logs in. The time limit is for everything together, from the connect to the last response.

    It does not learn the broker's versions: a request names a version that every broker has. The constructor and `ask`
    raise OSError (NoResponse and LoginRejected are such errors), MalformedMessage and AuthenticationFailed.
    """

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> None:
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._deadline_s = time.monotonic() + timeout_s
        self._socket = socket.create_connection(address, timeout_s)
        try:
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])
            if login is not None:
                self._log_in(login, address[0])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request. Returns the response."""
        assert request.SCHEMA.key is not None
        api = APIS[request.SCHEMA.key]
        self._correlation_id += 1
        self._limit()
        self._socket.sendall(b"".join(request_frame(api, version, self._correlation_id, self._client_id, request)))
        frame = self._received(response_size(self._received(4), 0))
        if correlation_id_of(frame) != self._correlation_id:
            raise MalformedMessage("a response to another request")
        try:
            return response_of(api, version, frame)
        except IndexError:
            raise MalformedMessage("a response without its header") from None

    def _received(self, size: int) -> bytes:
        pieces, left = [], size
        while left:
            self._limit()
            piece = self._socket.recv(min(left, _CHUNK_BYTES))
            if not piece:
                raise NoResponse("the broker ended the connection")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _limit(self) -> None:
        """Gives the next call of the socket the time that is left."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise NoResponse("no response in time")
        self._socket.settimeout(left_s)

    def _log_in(self, login: Login, host: str) -> None:
        from ..protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

        handshake = self.ask(SaslHandshakeRequest(mechanism=login.mechanism), _HANDSHAKE_VERSION)
        if handshake.error_code != ErrorCode.NONE:
            raise LoginRejected(f"the broker does not offer {login.mechanism}")
        client = login.client(host)
        token: bytes | None = client.first()
        while token is not None:
            response = self.ask(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION)
            if response.error_code != ErrorCode.NONE:
                raise LoginRejected(f"the broker rejected the login of {login.username}")
            token = client.respond(bytes(response.auth_bytes))
