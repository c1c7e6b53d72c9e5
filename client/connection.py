"""A connection to a node that this process opened: it sends requests and receives responses.

Its first request asks for the peer's versions (KIP-511). Then it logs in, if the peer's listener asks for that, and
`ready` is called. While a session is renewed, requests wait. Responses arrive in the order of the requests. A frame is
decoded from the buffer that received it; the buffer grows with what has arrived.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

from ..protocol.apis import API_VERSIONS_KEY, APIS, Api
from ..protocol.codec import MalformedMessage
from ..protocol.errors import ErrorCode
from ..protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..protocol.schema import Message
from . import SOFTWARE
from .faults import TLS_ALERT, Fault, PortSecurity, foreign_fault, security_fault, tls_fault
from .frames import correlation_id_of, request_frame, response_of, response_size
from .versions import Version

if TYPE_CHECKING:
    from ..protocol.buffer import Buffer
    from .login import PeerLogin
    from .sasl import Login

log = logging.getLogger("odradek.peers")

#: The first buffer, and what a connection keeps when it has received something large.
BUFFER_BYTES = 64 * 1024
KEPT_BUFFER_BYTES = 2 * 1024 * 1024
#: After so many small responses in succession a large buffer goes: a forwarded request may have a large response once.
SMALL_RESPONSES = 8
#: Frames up to this are copied out of the buffer: codecs are quickest on bytes of their own.
COPIED_FRAME_BYTES = 16 * 1024
#: The first that names the software. Every Kafka since 2.4 supports it; a newer one is not needed to learn versions.
_API_VERSIONS_VERSION = ApiVersionsRequest.versions_with("client_software_name")[0]

Reply = Callable[[Message | None], None]


class _InFlight(NamedTuple):
    correlation_id: int
    api: Api
    version: int
    reply: Reply


class PeerConnection(asyncio.BufferedProtocol):
    """The protocol of one connection. It calls `ready` when requests may be sent, and `lost` with whether the peer ended the
    connection.
    """

    def __init__(
        self,
        client_id: str,
        ready: Callable[[], object],
        lost: Callable[[PeerConnection, bool], None],
    ) -> None:
        self._client_id = client_id.encode()
        self._ready = ready
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(BUFFER_BYTES)
        self._filled = 0
        #: Those since the last one that did not fit into `BUFFER_BYTES`.
        self._small_responses = 0
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self._ended_by_us = False
        #: Why the peer did not let this process in, or ended the connection.
        self.fault: Fault | None = None
        self._login: PeerLogin | None = None
        #: Requests that wait for the renewal of a session; None while nothing is renewed.
        self._held: list[tuple[Message, Reply, Version]] | None = None

    # ---- requests

    def send(self, request: Message, reply: Reply, version: Version = None) -> None:
        """Sends a request. `reply` is called once, never from within; not at all when the connection is lost before."""
        if self._held is not None:
            self._held.append((request, reply, version))
        else:
            self._send_now(request, reply, version)

    def version_of(self, request: Message, version: Version = None) -> int | None:
        """The version in which the request would be sent; None where the peer has none of these."""
        assert request.SCHEMA.key is not None
        if isinstance(version, int):
            return version
        api = APIS[request.SCHEMA.key]
        low, high = self._versions.get(api.key, (0, -1))
        chosen = min(high, api.latest_stable_version)
        if version is not None:
            low, chosen = max(low, version.least), min(chosen, version.most)
        return chosen if chosen >= low and chosen in api.versions else None

    def _send_now(self, request: Message, reply: Reply, version: Version) -> None:
        assert request.SCHEMA.key is not None
        api = APIS[request.SCHEMA.key]
        chosen = self.version_of(request, version)
        if chosen is None:
            log.warning("%s is not supported by %s", api.name, self.peer)
            asyncio.get_running_loop().call_soon(reply, None)
            return
        self._write(api, chosen, request, reply)

    def _write(self, api: Api, version: int, request: Message, reply: Reply) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = request_frame(api, version, self._correlation_id, self._client_id, request)
        self._in_flight.append(_InFlight(self._correlation_id, api, version, reply))
        assert self._transport is not None
        self._transport.writelines(frame)

    @property
    def peer(self) -> str:
        address: tuple[object, ...] = (self._transport and self._transport.get_extra_info("peername")) or ("", 0)
        return f"{address[0]}:{address[1]}"

    @property
    def descriptor(self) -> int:
        """The socket's file descriptor; -1 when the network is simulated."""
        found = self._transport and self._transport.get_extra_info("socket")
        return found.fileno() if found else -1

    def end(self) -> None:
        self._ended_by_us = True
        if self._transport is not None:
            self._transport.abort()

    # ---- calls from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._ended_by_us:
            cast(asyncio.Transport, transport).abort()
            return
        self._transport = cast(asyncio.Transport, transport)
        request = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version="1")
        self._write(APIS[API_VERSIONS_KEY], _API_VERSIONS_VERSION, request, self._learn_versions)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_flight.clear()
        if self.fault is None and exc is not None:
            self.fault = tls_fault(exc)
        if self._login is not None:
            self._login.stop()
        self._lost(self, not self._ended_by_us)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if not self._versions and self._buffer[:2] == TLS_ALERT:
            self.fault = security_fault(PortSecurity.TLS)
            self.end()
            return
        try:
            self._take_frames()
        except (MalformedMessage, struct.error, IndexError) as error:
            if not self._versions:
                self.fault = self.fault or foreign_fault(error)
            else:
                log.error("closing the connection to %s: %s", self.peer, error)
            self.end()

    # ---- responses

    def _take_frames(self) -> None:
        pos, needed = 0, 4
        while self._filled - pos >= 4:
            needed = 4 + response_size(self._buffer, pos)
            if self._filled - pos < needed:
                break
            self._small_responses = 0 if needed > BUFFER_BYTES else self._small_responses + 1
            self._answered(pos + 4, pos + needed)
            pos, needed = pos + needed, 4
        self._keep(pos, needed)

    def _keep(self, pos: int, needed: int) -> None:
        """Moves the beginning of an incomplete response to the front, of a larger buffer if necessary."""
        filled, room = self._filled - pos, len(self._buffer)
        if filled == room or (pos and needed > room):
            room = max(BUFFER_BYTES, min(needed, 4 * room))
        elif not filled and (room > KEPT_BUFFER_BYTES or self._small_responses >= SMALL_RESPONSES):
            room = BUFFER_BYTES
        rest = self._buffer[pos : self._filled] if pos or room != len(self._buffer) else None
        if room != len(self._buffer):
            self._buffer = bytearray(room)
        if rest is not None:
            memoryview(self._buffer)[:filled] = rest
        self._filled = filled

    def _answered(self, start: int, end: int) -> None:
        frame: Buffer = memoryview(self._buffer)[start:end]
        if end - start <= COPIED_FRAME_BYTES:
            frame = bytes(frame)
        correlation_id = correlation_id_of(frame)
        if not self._in_flight or self._in_flight[0].correlation_id != correlation_id:
            raise MalformedMessage(
                f"a response with correlation id {correlation_id}, which is not that of the oldest request"
            )
        asked = self._in_flight.popleft()
        asked.reply(response_of(asked.api, asked.version, frame))

    def _learn_versions(self, response: Message | None) -> None:
        assert isinstance(response, ApiVersionsResponse)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            self._write(APIS[API_VERSIONS_KEY], 0, ApiVersionsRequest(), self._learn_versions)
            return
        self._versions = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        if self._login is not None:
            self._login.begin()
        else:
            self._ready()

    # ---- logging in

    def log_in_as(self, login: Login | None, host: str) -> None:
        """Has the connection log in at that host before it is ready; called before it is made."""
        if login is not None:
            from .login import PeerLogin  # which nodes without SASL do not need

            self._login = PeerLogin(
                login, host, self._send_now, self._logged_in, self._login_failed, self._renew_session
            )

    def _logged_in(self) -> None:
        if self._held is None:
            self._ready()
            return
        held, self._held = self._held, None
        for request, reply, version in held:
            self._send_now(request, reply, version)

    def _login_failed(self, fault: Fault) -> None:
        self.fault = fault
        self.end()

    def _renew_session(self) -> None:
        if self._login is not None and not self._ended_by_us:
            self._held = []
            self._login.begin()
