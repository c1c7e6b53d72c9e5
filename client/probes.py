"""Probes for a running process: when a process dies, its machine refuses connections to its ports at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterable

#: A listener that has not responded by then does not refuse.
PROBE_TIMEOUT_S = 1.0
#: A process that dies closes one socket after the other: a connection may have ended while a listener still accepts. So a
#: listener that accepts is probed again; that of a running process still accepts then.
AGAIN_S = (0.01, 0.05, 0.2, 1.0)


async def is_gone(addresses: Collection[tuple[str, int]], again_s: Iterable[float] = AGAIN_S) -> bool:
    """Returns True if all addresses refuse connections, now or at a later attempt."""
    for wait_s in (0.0, *again_s):
        await asyncio.sleep(wait_s)
        if all([await is_refused(host, port) for host, port in addresses]):
            return True
    return False


async def is_refused(host: str, port: int) -> bool:
    """Returns True if the machine refuses connections to the port at every address. A timeout does not count as
    connection refused.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                with socket.socket(family, kind, protocol) as probe:
                    probe.setblocking(False)
                    if not await _connection_refused(probe, address):
                        return False
    except OSError:  # a timeout is one
        return False
    return True


async def _connection_refused(probe: socket.socket, address: tuple[object, ...]) -> bool:
    try:
        await asyncio.get_running_loop().sock_connect(probe, address)
    except ConnectionRefusedError:
        return True
    return False
