"""A connection that blocks until each response: for few requests of a short process, which would wait 40 ms for asyncio."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, cast

from ..protocol.apis import APIS, api_named
from ..protocol.codec import MalformedMessage
from ..protocol.schema import Request, ResponseT
from .errors import LoginRejected, NoResponse, NotKafka
from .faults import (
    TLS_ALERT,
    Fault,
    Kind,
    PortSecurity,
    foreign_fault,
    handshake_fault,
    rejection,
    security_fault,
    verdict_of,
)
from .frames import correlation_id_of, request_frame, response_of, response_size
from .port_security import fault_of_port

if TYPE_CHECKING:
    import ssl

    from .sasl import Login


#: A buffer grows by so much: with the bytes that arrive, not with the length that a peer promises.
_CHUNK_BYTES = 64 * 1024
#: SaslHandshake: tokens follow in SaslAuthenticate. Every broker with SaslAuthenticate has the first version of it.
_HANDSHAKE_VERSION = api_named("SaslHandshake").newest_version
_AUTHENTICATE_VERSION = api_named("SaslAuthenticate").versions.low


class Ended(NoResponse):
    """The broker ended the connection, and did not say why."""


class BlockingConnection:
    """Connects and logs in. The time limit is for everything together, from the connect to the last response.

    It does not learn the broker's versions: a request names a version that every broker has. The constructor and `ask`
    raise OSError (NoResponse and LoginRejected are such errors) and MalformedMessage.
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
        self._address = address
        self._has_tls, self._has_login = tls is not None, login is not None
        self._correlation_id = 0
        self._deadline_s = time.monotonic() + timeout_s
        self._socket = socket.create_connection(address, timeout_s)
        try:
            if tls is not None:
                self._secure(tls)
            if login is not None:
                self._log_in(login, address[0])
        except (LoginRejected, NotKafka, TimeoutError):
            self.close()
            raise
        except MalformedMessage as error:
            self.close()
            raise self._rejected(foreign_fault(error)) from None
        except OSError as error:
            self.close()
            fault = verdict_of(error) or fault_of_port(address, tls, timeout_s, has_login=True)
            if fault is None:
                raise
            raise self._rejected(fault) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def _secure(self, tls: ssl.SSLContext) -> None:
        try:
            self._socket = tls.wrap_socket(self._socket, server_hostname=self._address[0])
        except TimeoutError:
            raise
        except OSError as error:
            raise self._rejected(handshake_fault(error)) from None

    def _rejected(self, fault: Fault) -> NoResponse:
        where = f"{self._address[0]}:{self._address[1]}"
        return rejection(where, fault, has_tls=self._has_tls, has_login=self._has_login)

    def ask(self, request: Request[ResponseT], version: int) -> ResponseT:
        """Sends a request. Returns the response."""
        assert request.SCHEMA.key is not None
        api = APIS[request.SCHEMA.key]
        self._correlation_id += 1
        self._limit()
        self._socket.sendall(b"".join(request_frame(api, version, self._correlation_id, self._client_id, request)))
        head = self._received(4)
        if head[:2] == TLS_ALERT:
            raise self._rejected(security_fault(PortSecurity.TLS))
        frame = self._received(response_size(head, 0))
        if correlation_id_of(frame) != self._correlation_id:
            raise MalformedMessage("a response to another request")
        try:
            return cast("ResponseT", response_of(api, version, frame))
        except IndexError:
            raise MalformedMessage("a response without its header") from None

    def _received(self, size: int) -> bytes:
        pieces, left = [], size
        while left:
            self._limit()
            piece = self._socket.recv(min(left, _CHUNK_BYTES))
            if not piece:
                raise Ended("the broker ended the connection")
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
        from ..protocol.messages.sasl_authenticate import SaslAuthenticateRequest
        from ..protocol.messages.sasl_handshake import SaslHandshakeRequest
        from .login import handshake_rejection, login_rejection
        from .sasl import AuthenticationFailed

        handshake = self.ask(SaslHandshakeRequest(mechanism=login.mechanism), _HANDSHAKE_VERSION)
        if fault := handshake_rejection(login, handshake):
            raise self._rejected(fault)
        client = login.client(host)
        try:
            token: bytes | None = client.first()
            while token is not None:
                response = self.ask(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION)
                if fault := login_rejection(login, response):
                    raise self._rejected(fault)
                token = client.respond(bytes(response.auth_bytes))
        except AuthenticationFailed as failed:
            raise self._rejected(Fault(Kind.LOGIN, failed.reason)) from None
