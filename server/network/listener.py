"""A listening endpoint of a node and its connections: who may connect, and how long a silent peer stays.

A wildcard host listens on IPv6 and IPv4; port 0 takes a free port. `config/listeners.py` has the format of `listeners`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, cast

from ..access.principals import principal_builder
from ..config.endpoint import Endpoint
from ..config.listeners import CannotListen
from .acceptor import SECURED_ACCEPTS_PER_TURN, Acceptor
from .addresses import client_host, plain_address
from .bound_sockets import bound_sockets
from .connection import CREATION_RATE, Connection
from .descriptors import BROKERS, CLIENTS, CONTROLLERS, DESCRIPTORS
from .frame_buffer import READ_BUFFER_BYTES
from .listener_kind import CONTROLLER

if TYPE_CHECKING:
    from ...metadata.configs.key_types import IntegerKey
    from ..access.authentication.gate import SaslListener
    from ..config.listeners import Listeners
    from .addresses import Address
    from .dispatch import Dispatcher
    from .handshaking import Handshaking
    from .listener_kind import ListenerKind
    from .shared_parts import SharedParts
    from .tls_connection import TlsConnection

log = logging.getLogger("odradek.listener")

#: Idle connections are looked for this many times in connections.max.idle.ms.
IDLE_SWEEPS = 8
#: Connections that wait to be accepted, unless socket.listen.backlog.size is set: its default of 50 is full after 3 ms of a
#: burst, and a further client waits a second until TCP tries again.
BACKLOG = 1024
#: A connection that has sent no request for so long may be ended to make room for another. Kafka's clients send their
#: first request at once.
SILENCE_S = 3.0
#: Connections that make room at once; each keeps its descriptor until the event loop has closed it.
MOST_ENDING = 4


class Listener:
    """A listening endpoint and its connections."""

    def __init__(
        self,
        shared: SharedParts,
        endpoint: Endpoint,
        kind: ListenerKind,
        dispatcher: Dispatcher,
        sasl: SaslListener | None = None,
    ) -> None:
        self.shared = shared
        #: How clients authenticate; None where they need not.
        self.sasl = sasl
        self.kind = kind
        self.name = endpoint.name
        #: Makes the principals of clients; None for Kafka's default.
        self.principal_builder = principal_builder(shared.config, endpoint.name)
        self.endpoint = endpoint
        self.dispatcher = dispatcher
        self.limits = shared.limits
        config = shared.config
        self.max_frame_bytes = config.get("socket.request.max.bytes")
        self.idle_s: float = config.get("connections.max.idle.ms") / 1000
        #: Shared by all connections of the listener (see connection.py).
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        self.read_view = memoryview(self.read_buffer)
        # In the order in which they came.
        self.connections: dict[Connection, None] = {}
        #: Those without a whole request at the last check, the oldest first.
        self._unproven: dict[Connection, None] = {}
        #: Those that make room for others and still have their descriptors.
        self._ending: set[Connection] = set()
        self._silent_sweeps: Counter[Connection] = Counter()
        #: The class of connections with which it shares descriptors.
        self.descriptor_class = _descriptor_class(shared.config.listeners, kind, endpoint.name)
        #: Connections closed as soon as they were accepted, by reason.
        self.refused: Counter[str] = Counter()
        #: The TLS handshakes in progress; None before the first.
        self._handshaking: Handshaking | None = None
        self._bound: list[socket.socket] = []
        self._servers: list[Acceptor | asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None

    def bind(self) -> None:
        """Takes the address, so that its port is known, without accepting connections. Raises OSError if it fails."""
        try:
            self._bound = bound_sockets(self.endpoint.host, self.endpoint.port, self._buffer_sizes())
        except OSError as error:
            raise CannotListen(error, error.strerror or str(error), "listeners") from None
        port = self._bound[0].getsockname()[1]
        self.endpoint = Endpoint(self.endpoint.name, self.endpoint.host, port)

    @property
    def is_started(self) -> bool:
        return bool(self._servers)

    @property
    def takes_descriptors(self) -> bool:
        """Returns whether its connections are sockets of this process; those of a simulated network are not."""
        return any(hasattr(bound, "accept") for bound in self._bound)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        if self.takes_descriptors:
            self.shared.plan_descriptors()
            DESCRIPTORS.measure()
            DESCRIPTORS.guarantee(self.descriptor_class)
        for bound in self._bound:
            if hasattr(bound, "accept"):
                acceptor = self._acceptor(bound)
                self._listen(acceptor)
                self._servers.append(acceptor)
            else:  # a simulated one, which takes no descriptor
                self._servers.append(await loop.create_server(lambda: Connection(self), sock=bound))
        if self.idle_s > 0:
            self._sweep = loop.call_later(self.idle_s / IDLE_SWEEPS, self._close_idle)

    def _acceptor(self, bound: socket.socket) -> Acceptor:
        if self.shared.tls.of(self.name) is None:
            return Acceptor(bound, self._decide, self._not_set_up, self._nothing_left)
        per_turn = SECURED_ACCEPTS_PER_TURN
        return Acceptor(bound, self._decide, self._not_set_up, self._nothing_left, self._connect, per_turn)

    def _listen(self, acceptor: Acceptor) -> None:
        try:
            acceptor.start(self._backlog())
        except OSError as error:  # two processes may bind an address, and one of them listens
            words = f"cannot listen on {self.endpoint.address}: {error.strerror}"
            raise CannotListen(error, words, "listeners") from None

    def _buffer_sizes(self) -> dict[int, int]:
        """Socket options that connections inherit.

        Without a key the system sizes each connection's buffers by its traffic, as -1 does; Kafka's 100 KiB would send one
        large response in ten parts.
        """
        options: dict[IntegerKey, int] = {
            "socket.receive.buffer.bytes": socket.SO_RCVBUF,
            "socket.send.buffer.bytes": socket.SO_SNDBUF,
        }
        config = self.shared.config
        return {
            option: config.get(key)
            for key, option in options.items()
            if key in config.values.texts and config.get(key) > 0
        }

    def _backlog(self) -> int:
        config = self.shared.config
        key: IntegerKey = "socket.listen.backlog.size"
        return config.get(key) if key in config.values.texts else BACKLOG

    async def stop(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        if self._servers and self.takes_descriptors:
            DESCRIPTORS.withdraw(self.descriptor_class)
        for bound in self._bound[len(self._servers) :]:
            bound.close()
        for server in self._servers:
            server.close()
            if isinstance(server, Acceptor):
                await server.wait_closed()
        for connection in list(self.connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()

    # Admission of connections.

    def _decide(self, accepted: socket.socket, address: Address) -> Connection | None:
        """The connection for a socket that was accepted; None when it is to be closed."""
        ip = plain_address(address[0])
        if not self._admits(ip, accepted.fileno()):
            return None
        connection = self._new_connection()
        connection.counted_as = ip
        connection.takes_descriptor = True
        DESCRIPTORS.enter(self.descriptor_class)
        return connection

    def _new_connection(self) -> Connection:
        tls = self.shared.tls.of(self.name)
        if tls is None:
            return Connection(self)
        from .handshaking import Handshaking
        from .tls_connection import TlsConnection

        if self._handshaking is None:
            self._handshaking = Handshaking(self.name, self.shared.lines, self.shared.audit, self.refused)
        return TlsConnection(self, tls)

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        """Connects an accepted socket. Raises OSError."""
        if self._handshaking is None:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
        else:
            await self._handshaking.connect(cast("TlsConnection", connection), accepted)

    def _admits(self, ip: str, fd: int | None) -> bool:
        """Counts the connection in, or logs why it may not be. `fd` is None when it takes no descriptor."""
        if fd is not None and not DESCRIPTORS.has_room(self.descriptor_class, fd) and not self._make_room(fd):
            # This line names no peer: every new connection is refused.
            words = (
                f"refusing connections on {self.name}: {DESCRIPTORS.taken} are open, and the other file descriptors of this "
                f"process are reserved for logs and peers (raise the limit {DESCRIPTORS.limit}: ulimit -n)"
            )
            self._refuse("descriptors", "", words)
            return False
        refused = self.limits.enter(ip, self.name)
        if refused is not None:
            self._refuse(refused.key, ip, f"refusing a connection from {ip} on {self.name}: {refused.words}")
            return False
        return True

    def _refuse(self, reason: str, peer: str, words: str) -> None:
        self.refused[reason] += 1
        self.shared.lines.log(log, logging.WARNING, peer, ("refused", self.name, reason), words)

    def _make_room(self, fd: int) -> bool:
        """Ends the connection that has been open longest without a request, if any has been for `SILENCE_S`.
        A flood of connections that send nothing thus keeps others out no longer than that.
        """
        if not DESCRIPTORS.has_spares(fd) or len(self._ending) >= MOST_ENDING:
            return False
        before_s = asyncio.get_running_loop().time() - SILENCE_S
        if self._handshaking is not None and self._handshaking.end_oldest(before_s):
            return True
        waiting = self._unproven
        while waiting:
            oldest = next(iter(waiting))
            if not oldest.closed and not _is_proven(oldest) and oldest.opened_s > before_s:
                return False
            del waiting[oldest]
            if not oldest.closed and not _is_proven(oldest):
                self._refuse(
                    "silent",
                    "",
                    f"closing connections on {self.name} that have sent no request, to make room for others",
                )
                self._ending.add(oldest)
                oldest.abort()
                return True
        return False

    def _not_set_up(self, connection: Connection) -> None:
        """The system refused what a connection needs, or the listener stops."""
        if connection.counted_as is not None and connection not in self.connections:
            self._left(connection, connection.counted_as)

    def _nothing_left(self, error: OSError) -> None:
        words = f"cannot accept connections on {self.name}: {error.strerror}"
        self._refuse("system", "", words)

    # Events of connections.

    def limit_of(self, connection: Connection) -> str:
        """Returns the key that limits the connection's frames, and its value, in words."""
        most = connection.max_frame_bytes
        key = "socket.request.max.bytes" if most == self.max_frame_bytes else "sasl.server.max.receive.size"
        return f"{key} is {most}"

    def _authenticate(self, connection: Connection, transport: asyncio.Transport) -> None:
        """Has the builder make the principal of a client that proves nothing, now; of one that logs in, later."""
        from .client_principals import authenticated, context_of

        if connection.sasl_gate is not None:
            connection.sasl_gate.context = partial(context_of, connection, transport)
        elif self.shared.tls.of(self.name) is None:
            authenticated(connection, transport, connection.principal)

    def opened(self, connection: Connection, transport: asyncio.Transport) -> None:
        peer: Address = transport.get_extra_info("peername") or ("", 0)
        ip = plain_address(peer[0])
        connection.client_host = client_host(ip)
        if connection.counted_as is None:
            if not self._admits(ip, None):
                connection.closed = True
                transport.abort()
                return
            connection.counted_as = ip
        connection.remote_address = f"[{ip}]:{peer[1]}" if ":" in ip else f"{ip}:{peer[1]}"
        if self.principal_builder is not None:
            self._authenticate(connection, transport)
        self.connections[connection] = None
        loop = asyncio.get_running_loop()
        connection.opened_s = loop.time()
        self._unproven[connection] = None
        refused_ms = self._throttled_ms(ip)
        if refused_ms:
            connection.hold(CREATION_RATE)
            loop.call_later(refused_ms / 1000, connection.abort)
            return
        pause_s = self.limits.pause_s(self.name, connection.opened_s)
        if pause_s > 0:
            connection.hold(CREATION_RATE)
            loop.call_later(pause_s, connection.release, CREATION_RATE)

    def _throttled_ms(self, ip: str) -> int:
        """Returns after how many ms a new connection is closed unserved: its address makes too many (KIP-612)."""
        rates = self.shared.quotas.connections
        if not rates.is_on:
            return 0
        throttle_ms = rates.throttle_ms(ip, self.shared.clock.now_ms())
        if throttle_ms:
            self._refuse("connection_creation_rate", ip, f"{ip} exceeds its quota of new connections on {self.name}")
        return throttle_ms

    def lost(self, connection: Connection) -> None:
        if connection.counted_as is None:
            return
        self.connections.pop(connection, None)
        self._unproven.pop(connection, None)
        self._ending.discard(connection)
        self._silent_sweeps.pop(connection, None)
        self._left(connection, connection.counted_as)
        self.shared.connection_lost(connection)

    def _left(self, connection: Connection, ip: str) -> None:
        connection.counted_as = None
        self.limits.leave(ip, self.name)
        if connection.takes_descriptor:
            DESCRIPTORS.leave(self.descriptor_class)

    def _close_idle(self) -> None:
        silent: Counter[Connection] = Counter()
        for connection in list(self.connections):
            if connection.closed:
                connection.abort()  # closed one sweep ago or more, and the peer does not take what is left
            elif connection.active or connection.waits_for_us:
                connection.active = False
            else:
                silent[connection] = self._silent_sweeps[connection] + 1
                if silent[connection] >= IDLE_SWEEPS:
                    words = f"closing the connection of {connection.remote_address}: idle for {self.idle_s:g} s"
                    self.shared.lines.log(log, logging.INFO, connection.counted_as or "", "idle", words)
                    connection.abort()
        self._silent_sweeps = silent
        self._sweep = asyncio.get_running_loop().call_later(self.idle_s / IDLE_SWEEPS, self._close_idle)


def _is_proven(connection: Connection) -> bool:
    """Returns whether its client has sent a request, and has authenticated where the listener requires it."""
    gate = connection.sasl_gate
    return connection.has_asked if gate is None else gate.is_authenticated


def _descriptor_class(said: Listeners, kind: ListenerKind, name: str) -> str:
    """Connections of controllers, of brokers on a listener of their own, and of all others."""
    if kind == CONTROLLER:
        return CONTROLLERS
    return BROKERS if name == said.inter_broker_name and len(said.brokers) > 1 else CLIENTS
