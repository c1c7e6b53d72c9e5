"""Sockets bound to the addresses that a host name stands for. A wildcard host is IPv6 and IPv4; port 0 is a free port."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping


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
    return made


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
