"""Requests to other nodes, from the quorum, followers and brokers.

`send` never waits and never raises. The response, or None when there will be none, goes to a callback on the event loop,
once and never from within `send`. There is one connection for each endpoint and purpose, so that a Fetch that waits at its
leader delays nothing else. The first request opens it, and so does the next one after it was lost.
"""

from __future__ import annotations

import asyncio
import logging
import select
import ssl
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..metadata.configs import InvalidConfig
from ..protocol.apis import APIS
from ..protocol.schema import Message, Request, ResponseT
from .connection import PeerConnection
from .faults import Fault, Kind, handshake_fault
from .versions import Version

if TYPE_CHECKING:
    from ..protocol.schema import ResponseCallback
    from .sasl import Login


log = logging.getLogger("odradek.peers")

LoginOf = Callable[[str], "Login | None"]
#: (listener, host) to keyword arguments of `create_connection`.
TlsOf = Callable[[str, str], dict[str, Any]]
_Key = tuple[str, int, str]

#: reconnect.backoff.ms and .max.ms of Kafka's own clients.
FIRST_BACKOFF_S = 0.05
MOST_BACKOFF_S = 1.0
#: Requests to one peer that are not answered; a peer that far behind is no use, and each may be large.
MAX_UNANSWERED = 1000
#: For a connection to stand and to tell its versions.
SETUP_TIMEOUT_S = 3.0


class Endpoint(Protocol):
    """The address of a node, and the name of its listener."""

    @property
    def name(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Peers:
    """The connections of this process to other nodes. `client_id`: what its requests carry. `login` returns how this node
    logs in on a listener, by the listener's name; None where it need not. `tls` returns the arguments of
    `create_connection` for the TLS of a listener on a host.
    """

    def __init__(
        self, client_id: str, login: LoginOf = lambda listener: None, tls: TlsOf = lambda listener, host: {}
    ) -> None:
        self._client_id = client_id
        self._login = login
        self._tls = tls
        self._peers: dict[_Key, _Peer] = {}
        #: Called with host and port of each connection that the other side has ended, see `on_lost`.
        self.on_any_lost: Callable[[str, int], None] | None = None

    def send(
        self,
        endpoint: Endpoint,
        request: Request[ResponseT],
        reply: Callable[[ResponseT | None], None],
        *,
        timeout_ms: int,
        version: Version = None,
        purpose: str = "",
        explain: Callable[[Fault], None] | None = None,
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        """Sends a request to the node at `endpoint`; `reply` gets the response, or None.

        None stands for: no connection, a connection that ended, a timeout, an API that the node does not serve, or a
        response that cannot be read. Without a `version` the request has the highest that both sides support. A timeout
        ends the connection with all requests in flight, since responses arrive in order. Views of record batches in a
        response are valid until `reply` returns. `explain` gets the reason before a None that has one; without it, a
        reason is logged. `on_sent` is called before the connection gets the request: the node may take it from then on.
        """
        asked = _Asked(request, reply, timeout_ms / 1000, version, explain)
        asked.on_sent = on_sent
        self._peer(endpoint, purpose).send(asked)

    def on_lost(self, endpoint: Endpoint, callback: Callable[[], None], purpose: str = "") -> None:
        """Has `callback` called each time that the other side ends an established connection, as a process that dies
        does; never for one that this side ends, nor for a timeout.
        """
        self._peer(endpoint, purpose).on_lost.append(callback)

    def have_some_ended(self) -> bool:
        """Returns True if a peer has ended a connection and the loop has not read that yet.
        The system call takes a microsecond or two. Without it (a simulated network, a system without POLLRDHUP) the
        result is True, since a connection may have ended.
        """
        if not hasattr(select, "POLLRDHUP"):
            return True
        poll = select.poll()
        for peer in self._peers.values():
            descriptor = peer.descriptor
            if descriptor is not None:
                if descriptor < 0:
                    return True
                poll.register(descriptor, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Closes all connections. Pending requests get None, and so do later ones."""
        for peer in self._peers.values():
            peer.close()

    def _peer(self, endpoint: Endpoint, purpose: str) -> _Peer:
        key = (endpoint.host, endpoint.port, purpose)
        if key not in self._peers:
            self._peers[key] = peer = _Peer(endpoint, self._client_id, self._login, self._tls)
            peer.on_lost.append(lambda: self._lost(endpoint))
        return self._peers[key]

    def _lost(self, endpoint: Endpoint) -> None:
        if self.on_any_lost is not None:
            self.on_any_lost(endpoint.host, endpoint.port)


class _Asked:
    """A request until its reply is called."""

    __slots__ = ("_reply", "_timeout_s", "_timer", "explain", "is_done", "on_sent", "request", "version")

    def __init__(
        self,
        request: Message,
        reply: ResponseCallback,
        timeout_s: float,
        version: Version,
        explain: Callable[[Fault], None] | None,
    ) -> None:
        self.request = request
        self.version = version
        self.explain = explain
        self.on_sent: Callable[[], None] | None = None
        self.is_done = False
        self._reply = reply
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, loop: asyncio.AbstractEventLoop, over: Callable[[_Asked], None]) -> None:
        self._timer = loop.call_later(self._timeout_s, over, self)

    def fail(self, fault: Fault | None) -> None:
        """Gives None in place of a response, after the reason."""
        if self.explain is not None and fault is not None and not self.is_done:
            self.explain(fault)
        self.done(None)

    def done(self, response: Message | None) -> None:
        if self.is_done:
            return
        self.is_done = True
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._reply(response)
        except Exception:
            log.exception("a bug: the response to %s was not handled", type(self.request).__name__)


class _Peer:
    """An endpoint for one purpose: its connection, if there is one, and the requests that wait for it."""

    def __init__(self, endpoint: Endpoint, client_id: str, login: LoginOf, tls: TlsOf) -> None:
        self.on_lost: list[Callable[[], None]] = []
        self._address = (endpoint.host, endpoint.port)
        self._listener = endpoint.name
        self._client_id = client_id
        self._login = login
        self._tls = tls
        #: The fault that was logged last, until a connection stands.
        self._logged_fault = ""
        #: The connection on which requests may be sent.
        self._connection: PeerConnection | None = None
        #: A connection attempt: its task, and its connection until the versions are known.
        self._connecting: asyncio.Task[None] | None = None
        self._made: PeerConnection | None = None
        #: The requests without a response, in order; those of `_waiting` wait for the connection.
        self._unanswered: dict[_Asked, None] = {}
        self._waiting: list[_Asked] = []
        self._backoff_s = 0.0
        self._is_closed = False

    @property
    def descriptor(self) -> int | None:
        """The file descriptor of the connection's socket, -1 if it has none; None without a connection."""
        return self._connection.descriptor if self._connection is not None else None

    def send(self, asked: _Asked) -> None:
        loop = asyncio.get_running_loop()
        if self._is_closed or len(self._unanswered) >= MAX_UNANSWERED:
            loop.call_soon(asked.done, None)
            return
        self._unanswered[asked] = None
        asked.arm(loop, self._time_is_over)
        if self._connection is not None:
            self._pass_on(self._connection, asked)
            return
        self._waiting.append(asked)
        if self._connecting is None:
            self._connecting = loop.create_task(self._connect())

    def _pass_on(self, connection: PeerConnection, asked: _Asked) -> None:
        def answered(response: Message | None) -> None:
            self._unanswered.pop(asked, None)
            asked.done(response)

        if asked.explain is not None and connection.version_of(asked.request, asked.version) is None:
            self._unanswered.pop(asked, None)
            name = APIS[asked.request.SCHEMA.key or 0].name
            asyncio.get_running_loop().call_soon(asked.fail, Fault(Kind.UNSUPPORTED, name))
            return
        if asked.on_sent is not None:
            asked.on_sent()
        try:
            connection.send(asked.request, answered, asked.version)
        except Exception as error:
            # The request may be a client's on its way to the controller, or the quorum's: only itself fails.
            name = type(asked.request).__name__
            if asked.explain is not None and isinstance(error, struct.error | ValueError | OverflowError):
                self._unanswered.pop(asked, None)
                words = f"{name.removesuffix('Request')} cannot carry a value: {error}"
                asyncio.get_running_loop().call_soon(asked.fail, Fault(Kind.UNENCODABLE, words))
                return
            log.exception("a bug: %s cannot be encoded", name)
            asyncio.get_running_loop().call_soon(answered, None)

    # ---- the connection

    async def _connect(self) -> None:
        """Connects after the back-off, which the first success ends. Returns when the versions are known."""
        if self._backoff_s:
            await asyncio.sleep(self._backoff_s)
        self._backoff_s = min(MOST_BACKOFF_S, self._backoff_s * 2 or FIRST_BACKOFF_S)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def is_ready() -> None:
            if not ready.done():
                ready.set_result(None)

        made = PeerConnection(self._client_id, is_ready, self._is_lost)
        self._made = made
        try:
            made.log_in_as(self._login(self._listener), self._address[0])
            async with asyncio.timeout(SETUP_TIMEOUT_S):
                tls = self._tls(self._listener, self._address[0])
                await asyncio.get_running_loop().create_connection(lambda: made, *self._address, **tls)
                await ready
        except Exception as error:
            if not isinstance(error, OSError | ValueError):  # a timeout is the first, a host that is no name the second
                log.exception("a bug: no connection to %s:%d; it is tried again", *self._address)
            made.fault = made.fault or _fault_of(error)
            log.debug("no connection to %s:%d: %s", *self._address, error)
            made.end()
            self._drop(made)
            return
        if self._made is made:
            self._is_ready(made)

    def _is_ready(self, connection: PeerConnection) -> None:
        self._connecting, self._made, self._connection = None, None, connection
        self._backoff_s = 0.0
        self._logged_fault = ""
        waiting, self._waiting = self._waiting, []
        for asked in waiting:
            if not asked.is_done:
                self._pass_on(connection, asked)

    def _is_lost(self, connection: PeerConnection, by_peer: bool) -> None:
        stood = self._connection is connection
        self._drop(connection, by_peer=by_peer)
        if stood and by_peer:
            for callback in list(self.on_lost):
                callback()

    def _drop(self, connection: PeerConnection, *, by_peer: bool = False) -> None:
        """Drops a connection, established or not: all requests that wait for it fail."""
        if connection not in (self._connection, self._made):
            return
        self._log(connection.fault)
        if self._connecting is not None and self._connecting is not asyncio.current_task():
            self._connecting.cancel()
        self._connection = self._made = self._connecting = None
        self._fail_all(connection.fault or (Fault(Kind.ENDED, "it ended the connection") if by_peer else None))

    def _log(self, fault: Fault | None) -> None:
        """Writes a new reason, unless all requests take it themselves."""
        if fault is None or fault.kind is Kind.REFUSED or fault.words == self._logged_fault:
            return
        if self._unanswered and all(asked.explain is not None for asked in self._unanswered):
            return
        self._logged_fault = fault.words
        log.warning("no connection to %s:%d: %s", *self._address, fault.words)

    def _time_is_over(self, asked: _Asked) -> None:
        if asked in self._waiting:
            self._waiting.remove(asked)
            self._unanswered.pop(asked, None)
            asked.done(None)
        elif self._connection is not None:
            self._connection.end()
            self._drop(self._connection)

    def _fail_all(self, fault: Fault | None = None) -> None:
        unanswered, self._unanswered, self._waiting = self._unanswered, {}, []
        for asked in unanswered:
            asked.fail(fault)

    def close(self) -> None:
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        for connection in (self._connection, self._made):
            if connection is not None:
                connection.end()
        self._connection = self._made = self._connecting = None
        self._fail_all()


def _fault_of(error: Exception) -> Fault | None:
    """Returns why no connection could be made; None for a timeout."""
    if isinstance(error, TimeoutError):
        return None
    if isinstance(error, InvalidConfig):
        return Fault(Kind.LOGIN, str(error))
    if isinstance(error, ssl.SSLError):
        return handshake_fault(error)
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return Fault(Kind.ENDED, "it ended the connection")
    return Fault(Kind.REFUSED, getattr(error, "strerror", None) or str(error))
