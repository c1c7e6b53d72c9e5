"""Listening sockets of a node: which clients may connect, through which name, and how long a silent peer stays.

- `Listener`: one listening endpoint and its connections. A wildcard host listens on IPv6 and IPv4; port 0 takes a
  free port. `config/listeners.py` has the format of `listeners`.
- `ListenerSet`: all listeners of the node, what their connections share, and the addresses that other nodes and
  clients get.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from ...client import SOFTWARE
from ...metadata.configs import InvalidConfig
from ..access.principals import principal_builder
from ..config.listeners import CannotListen, Endpoint, ListenerEndpoint, Listeners
from .call import BROKER, CONTROLLER, ListenerKind
from .connection import CREATION_RATE, Connection
from .descriptors import BROKERS, CLIENTS, CONTROLLERS, DESCRIPTORS
from .dispatch import Dispatcher
from .shared_parts import READ_BUFFER_BYTES, ReceiveBudget, SharedParts
from .sockets import SECURED_ACCEPTS_PER_TURN, Acceptor, Address, bound_sockets, client_host, plain_address

if TYPE_CHECKING:
    from ..access.audit import AuditLog
    from ..access.authentication.gate import SaslListener
    from ..access.authentication.sasl_listeners import MakeSasl
    from ..access.quotas.client_quotas import ClientQuotas
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.sliced_work import Turns
    from .tls import Handshaking, TlsConnection


# ---- one listener

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
        self.max_frame_bytes: int = config.get("socket.request.max.bytes")
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
        options = {"socket.receive.buffer.bytes": socket.SO_RCVBUF, "socket.send.buffer.bytes": socket.SO_SNDBUF}
        config = self.shared.config
        return {
            option: config.get(key)
            for key, option in options.items()
            if key in config.values.texts and config.get(key) > 0
        }

    def _backlog(self) -> int:
        config = self.shared.config
        key = "socket.listen.backlog.size"
        backlog: int = config.get(key) if key in config.values.texts else BACKLOG
        return backlog

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
        connection = self._made()
        connection.counted_as = ip
        connection.takes_descriptor = True
        DESCRIPTORS.enter(self.descriptor_class)
        return connection

    def _made(self) -> Connection:
        tls = self.shared.tls.of(self.name)
        if tls is None:
            return Connection(self)
        from .tls import (
            Handshaking,
            TlsConnection,  # which few brokers need
        )

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
        from .connection import authenticated, context_of

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


# ---- the listeners of a node

_KEYS = frozenset(("listeners", "listener.security.protocol.map"))
_ANY_HOST = ("", "0.0.0.0", "::")


class ListenerSet(SharedParts):
    """Opens and closes the listeners of a node.

    `dispatchers`: by the kind of listener. `other_nodes` returns how many nodes this node may have connections to.
    `sasl`: the SASL of a listener with a security protocol.

    A dynamic `listeners` (KIP-226) adds and removes listeners while the broker runs. Added listeners are opened;
    removed ones are closed with their connections. Unchanged listeners keep everything, even their port. Metadata
    names a new listener after the next start, when the broker registers itself again.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        lines: RepeatedLines,
        audit: AuditLog,
        turns: Turns,
        quotas: ClientQuotas,
        dispatchers: Mapping[ListenerKind, Dispatcher],
        other_nodes: Callable[[], int],
        sasl: MakeSasl,
    ) -> None:
        super().__init__(config, clock, lines, audit, turns, quotas)
        self._sasl = sasl
        self.other_nodes = other_nodes
        self.receiving = ReceiveBudget(config.get("queued.max.request.bytes"), self)
        self._dispatchers = dispatchers
        self._listeners: list[Listener] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._listeners)

    def __getitem__(self, index: int) -> Listener:
        return self._listeners[index]

    def bind(self) -> None:
        """Takes the addresses of the configuration; they accept no connection yet. Raises CannotListen, and InvalidConfig
        for keys and certificates that cannot be read.
        """
        self.tls.open()
        said = self.config.listeners
        for endpoint in said.brokers:
            self._bind(endpoint, BROKER)
        for endpoint in said.controllers:
            self._bind(endpoint, CONTROLLER)

    def watch_slow_requests(self) -> None:
        """Logs slow requests from now on, if `odradek.slow.request.ms` is set."""
        limit_ms = self.config.get("odradek.slow.request.ms")
        if limit_ms is not None:
            self._dispatchers[BROKER].watch(limit_ms)

    def _bind(self, said: ListenerEndpoint, kind: ListenerKind) -> Listener:
        endpoint = Endpoint(said.name, said.host, said.port)
        listener = Listener(self, endpoint, kind, self._dispatchers[kind], self._sasl(said.name, said.protocol))
        listener.bind()
        self._listeners.append(listener)
        return listener

    async def start_early(self) -> None:
        """Accepts connections on the listeners that do not wait for the metadata: those of controllers, and others by
        `early.start.listeners`.
        """
        early = self.config.listeners.early
        for listener in self._listeners:
            if listener.name in early:
                await listener.start()

    async def start(self) -> None:
        """Accepts connections on all listeners, and follows changes of `listeners` from now on."""
        for listener in self._listeners:
            if not listener.is_started:
                await listener.start()
        self.config.subscribe(self._config_changed)

    async def stop(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            await listener.stop()

    def has_clients(self) -> bool:
        """Returns whether clients are connected that have sent a request; other nodes are none."""
        return any(
            connection.has_asked and (connection.software is None or connection.software[0] != SOFTWARE)
            for listener in self._listeners
            if listener.kind == BROKER
            for connection in listener.connections
        )

    @property
    def takes_descriptors(self) -> bool:
        """Returns whether connections are sockets of this process; those of a simulated network are not."""
        return any(listener.takes_descriptors for listener in self._listeners)

    def plan_descriptors(self) -> None:
        """Keeps descriptors for the connections to the nodes that there are now."""
        DESCRIPTORS.peers_are(self, self.other_nodes())

    # Changes.

    def _config_changed(self, names: frozenset[str]) -> None:
        if not names & _KEYS:
            return
        said = self.config.listeners
        wanted = {endpoint.name: endpoint for endpoint in (*said.brokers, *said.controllers)}
        there = {listener.name for listener in self._listeners}
        for listener in list(self._listeners):
            if listener.name not in wanted:
                log.info("closing listener %s", listener.name)
                self._listeners.remove(listener)
                self._do(listener.stop())
        for endpoint in wanted.values():
            if endpoint.name not in there:
                self._open(endpoint, CONTROLLER if endpoint in said.controllers else BROKER)

    def _open(self, said: ListenerEndpoint, kind: ListenerKind) -> None:
        try:
            listener = self._bind(said, kind)
        except (OSError, InvalidConfig) as error:
            log.error("%s is not opened: %s", said.name, error)
            return
        log.info("opening listener %s on %s", listener.name, listener.endpoint.address)
        self._do(listener.start())

    def _do(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Addresses.

    def controller_endpoints(self) -> list[Endpoint]:
        """Returns the endpoints of this node's controller listeners: as advertised, otherwise as bound. A wildcard host
        becomes localhost.
        """
        reported = {listener.name: listener for listener in self.config.listeners.advertised_controllers}
        found = []
        for listener in self._listeners:
            if listener.kind != CONTROLLER:
                continue
            endpoint, said = listener.endpoint, reported.get(listener.name)
            if said is not None and said.host not in _ANY_HOST:
                endpoint = Endpoint(endpoint.name, said.host, said.port or endpoint.port)
            found.append(replace(endpoint, host="localhost") if endpoint.host in _ANY_HOST else endpoint)
        return found

    def advertised_endpoints(self) -> list[Endpoint]:
        """Returns the endpoints that clients get; a listener that `advertised.listeners` does not name is given as it is
        bound.
        """
        bound = {listener.name: listener.endpoint for listener in self._listeners}
        return [
            _advertised(bound[said.name], Endpoint(said.name, said.host, said.port))
            for said in self.config.listeners.advertised
        ]


def _advertised(bound: Endpoint, said: Endpoint) -> Endpoint:
    """Port 0 stands for the port that was found; a wildcard host for this machine."""
    host, port = said.host or bound.host, said.port or bound.port
    return Endpoint(bound.name, "localhost" if host in _ANY_HOST else host, port)
