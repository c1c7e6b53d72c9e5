"""Accepting connections, a bounded number per turn of the event loop, each with a decision before it costs anything.

The event loop's own `create_server` accepts all that waits in one turn, without a callback before it takes descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import resource
import socket
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any

from ...storage.files.open_files import SPARES

log = logging.getLogger("odradek.listener")

#: Connections that are accepted in one turn: setting one up takes some 0.1 ms, and requests wait meanwhile.
ACCEPTS_PER_TURN = 16
#: While more wait than a turn accepts, and the turns are long because those that were accepted are busy, accepting gets
#: a third of the loop's time, and this many a turn at most. With 16 the last of a thousand would wait for 60 long turns.
MOST_ACCEPTS_PER_TURN = 128
_SECONDS_PER_ACCEPT = 0.0003
#: The same where connections begin with a TLS handshake. To the end of its handshake one takes up to a millisecond, and
#: peers may come by the thousand to stall theirs.
SECURED_ACCEPTS_PER_TURN = 1
#: After an accept for which there was no descriptor or no memory. The connection stays in the system's queue.
PAUSE_S = 0.1

_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

#: Host and port first; addresses of IPv6 have two numbers more.
Address = tuple[Any, ...]


class Acceptor:
    """A listening socket. `decide` gets each accepted socket and its peer's address, and returns the protocol that
    serves it, or None to have it closed at once. `failed` gets a protocol whose connection could not be set up.
    `short` is called with the error when the system has no descriptors left to accept with. `connect` connects the
    protocol and the socket where that takes more than a transport; it raises OSError.
    """

    def __init__(
        self,
        listening: socket.socket,
        decide: Callable[[socket.socket, Address], asyncio.BaseProtocol | None],
        failed: Callable[[Any], None],
        short: Callable[[OSError], None],
        connect: Callable[[Any, socket.socket], Awaitable[object]] | None = None,
        accepts_per_turn: int = ACCEPTS_PER_TURN,
    ) -> None:
        self._listening = listening
        self._decide = decide
        self._connect = connect
        self._accepts_per_turn = accepts_per_turn
        self._failed = failed
        self._short = short
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        #: When the last turn left connections waiting; None when it left none.
        self._left_some_s: float | None = None

    def start(self, backlog: int) -> None:
        self._listening.setblocking(False)
        self._listening.listen(backlog)
        self._resume()

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()

    async def wait_closed(self) -> None:
        """Ends the handshakes that are in progress; returns when all connections that were accepted are set up or closed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        before_s, self._left_some_s = self._left_some_s, self._loop.time()
        for _ in range(self._accepts_now(before_s)):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                self._left_some_s = None
                return
            except OSError as error:
                if error.errno in _SHORTAGE:
                    self._wait(error)
                    return
                continue  # this connection ended before it was accepted, as accept(2) reports in many ways
            protocol = self._decide(accepted, address)
            if protocol is None:
                accepted.close()
                continue
            task = self._loop.create_task(self._set_up(protocol, accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _accepts_now(self, before_s: float | None) -> int:
        """Returns how many connections this turn accepts. `before_s`: when the last turn left some."""
        count = self._accepts_per_turn
        elapsed_s = 0.0 if before_s is None else self._loop.time() - before_s
        if count < ACCEPTS_PER_TURN or elapsed_s > PAUSE_S:
            return count  # the loop was idle in between
        return min(MOST_ACCEPTS_PER_TURN, max(count, int(elapsed_s / _SECONDS_PER_ACCEPT)))

    def _wait(self, error: OSError) -> None:
        """Nothing can be accepted now, and the socket would be readable all the time."""
        self._loop.remove_reader(self._listening.fileno())
        self._pause = self._loop.call_later(PAUSE_S, self._resume)
        SPARES.fill()
        self._short(error)

    async def _set_up(self, protocol: asyncio.BaseProtocol, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            if self._connect is None:
                await self._loop.connect_accepted_socket(lambda: protocol, accepted)
            else:
                await self._connect(protocol, accepted)
        except (OSError, asyncio.CancelledError) as error:
            log.debug("a connection was not set up: %s", error)
            accepted.close()
            self._failed(protocol)


#: Listening sockets get descriptors from here on, above those of most brokers' connections and files. The system's table of
#: descriptors and the event loop's take some 128 KiB each for it.
_FIRST_DESCRIPTOR = 16_384
#: Below the limit of descriptors when that is lower: room for listening sockets, which no connection gets.
_BELOW_LIMIT = 16


def bound_sockets(host: str, port: int, options: Mapping[int, int] | None = None) -> list[socket.socket]:
    """Returns a bound socket per address of the host, all on one port, with these SOL_SOCKET options. Raises OSError."""
    found: list[socket.socket] = []
    try:
        for family, address in _addresses(host):
            found.append(_bound(family, address, port, options or {}))
            port = found[0].getsockname()[1]
    except OSError as error:
        for made in found:
            made.close()
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reason = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise OSError(error.errno, f"cannot listen on {place}: {reason}") from None
    return found


def _bound(family: int, host: str, port: int, options: Mapping[int, int]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        for option, value in options.items():
            made.setsockopt(socket.SOL_SOCKET, option, value)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return _with_high_descriptor(made)


def _with_high_descriptor(bound: socket.socket) -> socket.socket:
    """Returns the socket with a descriptor above those of connections.

    Linux closes the descriptors of a killed process from the highest to the lowest. Closed first, a listening socket refuses
    clients that connect again when their connections end. Closed last, it lets the system accept such a client and then
    reset its connection, which kafka-python over TLS does not survive (compat_tests/kafka_python/FINDINGS.md).
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _FIRST_DESCRIPTOR + _BELOW_LIMIT if soft == resource.RLIM_INFINITY else soft
    first = min(_FIRST_DESCRIPTOR, limit - _BELOW_LIMIT)
    with contextlib.suppress(OSError):  # no descriptor is left there, or it is simulated: it serves all the same
        moved = socket.socket(fileno=fcntl.fcntl(bound, fcntl.F_DUPFD_CLOEXEC, first))
        bound.close()
        return moved
    return bound


def _addresses(host: str) -> list[tuple[int, str]]:
    """(family, address) of every address that a listener's host stands for."""
    if host in ("", "::"):
        return [(socket.AF_INET6, "::")] if _has_ipv6() else [(socket.AF_INET, "0.0.0.0")]
    # Bytes need no codec of international names, which takes a fifth of a megabyte.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
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


def plain_address(text: str) -> str:
    """An IPv4 client of a dual-stack listener shows as ::ffff:a.b.c.d; its address is a.b.c.d."""
    return text.removeprefix("::ffff:") if text.startswith("::ffff:") and "." in text else text


def client_host(ip: str) -> str:
    """Returns an address as Java prints it, without shortening: /127.0.0.1, /0:0:0:0:0:0:0:1."""
    if ":" not in ip:
        return f"/{ip}"
    address, percent, scope = ip.partition("%")
    groups = IPv6Address(address).exploded.split(":")
    return "/" + ":".join(format(int(group, 16), "x") for group in groups) + percent + scope


def decoded_client_host(address: bytes) -> str:
    """Returns the client host of an Envelope's address. Raises ValueError if it has neither 4 nor 16 bytes."""
    return client_host(str(ip_address(address)))


def encoded_client_host(host: str | None) -> bytes:
    """Returns the address of a client host for an Envelope; that of the local host when there is none."""
    return ip_address((host or "").lstrip("/").partition("%")[0] or "127.0.0.1").packed
