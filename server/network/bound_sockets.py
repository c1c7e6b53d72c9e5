"""Sockets bound to the addresses of a listener's host."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import resource
import socket
from collections.abc import Mapping

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
