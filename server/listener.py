"""Listening sockets: who may connect, through which name, and for how long a silent peer stays.

What `listeners` may say is in `endpoints.py`. A wildcard host listens on IPv6 and IPv4; port 0 takes a free port.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .connection import READ_BUFFER_BYTES, Connection
from .connection_limits import ConnectionLimits
from .dispatch import Dispatcher

if TYPE_CHECKING:
    from .broker import BrokerServer

log = logging.getLogger("odradek.listener")

#: Idle connections are looked for this many times in connections.max.idle.ms.
IDLE_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One entry of `listeners`; the host is "" for every interface."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """host:port, as clients take it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener:
    """One listening endpoint and its connections."""

    def __init__(
        self, broker: BrokerServer, endpoint: Endpoint, dispatcher: Dispatcher, limits: ConnectionLimits
    ) -> None:
        self.broker = broker
        self.name = endpoint.name
        self.endpoint = endpoint
        self.dispatcher = dispatcher
        self.limits = limits
        config = broker.config
        self.max_frame_bytes: int = config.get("socket.request.max.bytes")
        self.idle_s: float = config.get("connections.max.idle.ms") / 1000
        #: Shared by all connections of the listener (see connection.py).
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        self.read_view = memoryview(self.read_buffer)
        # In the order in which they came.
        self.connections: dict[Connection, None] = {}
        self._silent_sweeps: Counter[Connection] = Counter()
        self._bound: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None

    def bind(self) -> None:
        """Takes the address, so that its port is known; nobody can connect yet. Raises OSError when it cannot be had."""
        self._bound = self._sockets(self.endpoint.port)
        port = self._bound[0].getsockname()[1]
        self.endpoint = Endpoint(self.endpoint.name, self.endpoint.host, port)

    @property
    def is_started(self) -> bool:
        return bool(self._servers)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for bound in self._bound:
            bound.setblocking(False)
            server = await loop.create_server(lambda: Connection(self), sock=bound, backlog=self._backlog())
            self._servers.append(server)
        if self.idle_s > 0:
            self._sweep = loop.call_later(self.idle_s / IDLE_SWEEPS, self._close_idle)

    def _backlog(self) -> int:
        backlog: int = self.broker.config.get("socket.listen.backlog.size")
        return backlog

    def _sockets(self, port: int) -> list[socket.socket]:
        """One bound socket per address of the host, all on one port."""
        found: list[socket.socket] = []
        try:
            for family, host in _addresses(self.endpoint.host):
                found.append(self._socket(family, host, port))
                port = found[0].getsockname()[1]
        except OSError as error:
            for made in found:
                made.close()
            reason = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise OSError(error.errno, f"cannot listen on {self.endpoint.address}: {reason}") from None
        return found

    def _socket(self, family: int, host: str, port: int) -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
            for key, option in (
                ("socket.receive.buffer.bytes", socket.SO_RCVBUF),
                ("socket.send.buffer.bytes", socket.SO_SNDBUF),
            ):
                # Connections inherit it. What nobody has set is left to the system, as -1 is: it sizes each connection's
                # buffers by what goes through them, and Kafka's 100 KiB would make ten waits of one large answer.
                if key in self.broker.config.values.texts and (size := self.broker.config.get(key)) > 0:
                    made.setsockopt(socket.SOL_SOCKET, option, size)
            made.bind((host, port))
        except OSError:
            made.close()
            raise
        return made

    async def stop(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        for bound in self._bound[len(self._servers) :]:
            bound.close()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()

    # What connections report.

    def opened(self, connection: Connection, transport: asyncio.Transport) -> None:
        peer: Any = transport.get_extra_info("peername") or ("", 0)
        ip = _plain_address(peer[0])
        connection.client_host = f"/{_java_address(ip)}"
        refused = self.limits.enter(ip, self.name)
        if refused is not None:
            connection.closed = True
            log.warning("refusing a connection of %s on %s: %s", ip, self.name, refused)
            transport.abort()
            return
        connection.remote_address = f"[{ip}]:{peer[1]}" if ":" in ip else f"{ip}:{peer[1]}"
        connection.connection_id = f"{self.endpoint.address}-{connection.remote_address}"
        connection.counted_as = ip
        self.connections[connection] = None
        loop = asyncio.get_running_loop()
        pause_s = self.limits.pause_s(self.name, loop.time())
        if pause_s > 0:
            connection.hold(connection)
            loop.call_later(pause_s, connection.release)

    def lost(self, connection: Connection) -> None:
        if connection.counted_as is None:
            return
        self.limits.leave(connection.counted_as, self.name)
        self.connections.pop(connection, None)
        self._silent_sweeps.pop(connection, None)
        self.broker.connection_lost(connection)

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
                    log.info("closing the connection of %s: idle for %s s", connection.remote_address, self.idle_s)
                    connection.abort()
        self._silent_sweeps = silent
        self._sweep = asyncio.get_running_loop().call_later(self.idle_s / IDLE_SWEEPS, self._close_idle)


def _addresses(host: str) -> list[tuple[int, str]]:
    """(family, address) of every address that a listener's host stands for."""
    if host in ("", "::"):
        return [(socket.AF_INET6, "::")] if _has_ipv6() else [(socket.AF_INET, "0.0.0.0")]
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    known = [(int(family), str(address[0])) for family, _, _, _, address in found]
    if not _has_ipv6():
        known = [(family, address) for family, address in known if family == socket.AF_INET]
    return list(dict.fromkeys(known))


def _has_ipv6() -> bool:
    if not socket.has_ipv6:
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _plain_address(text: str) -> str:
    """An IPv4 client of a dual-stack listener shows as ::ffff:a.b.c.d; its address is a.b.c.d."""
    return text.removeprefix("::ffff:") if text.startswith("::ffff:") and "." in text else text


def _java_address(ip: str) -> str:
    """As Java prints it, without shortening: 0:0:0:0:0:0:0:1."""
    if ":" not in ip:
        return ip
    address, percent, scope = ip.partition("%")
    groups = ipaddress.IPv6Address(address).exploded.split(":")
    return ":".join(format(int(group, 16), "x") for group in groups) + percent + scope
