"""Names of hosts in quotas of addresses: each is resolved off the loop, with a deadline (KIP-612)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Iterable

#: No resolution takes longer. Kafka waits for as long as the system's resolver does.
RESOLVE_TIMEOUT_S = 5.0
#: Names that are resolved at the same time; further ones count as unresolvable. An operator sets a few.
MOST_NAMES = 100

#: By name, the addresses that it has: none for a name that cannot be resolved.
Addresses = dict[str, tuple[str, ...]]

_running: dict[asyncio.Task[None], int] = {}


def is_address(name: str) -> bool:
    """Returns True for the text of an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def resolve(names: Iterable[str], done: Callable[[Addresses], None]) -> None:
    """Calls `done` on the loop, later, with the addresses of each name."""
    wanted = sorted(set(names))
    looked_up = wanted[: max(0, MOST_NAMES - sum(_running.values()))]
    found: Addresses = dict.fromkeys(wanted, ())
    task = asyncio.get_running_loop().create_task(_resolve(looked_up, found, done), name="resolve hosts of quotas")
    _running[task] = len(looked_up)
    task.add_done_callback(_running.pop)


async def _resolve(names: list[str], found: Addresses, done: Callable[[Addresses], None]) -> None:
    found.update(zip(names, await asyncio.gather(*map(_addresses, names))))
    done(found)


async def _addresses(name: str) -> tuple[str, ...]:
    looking = asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.wait_for(looking, RESOLVE_TIMEOUT_S)
    except (OSError, UnicodeError, TimeoutError):
        return ()
    return tuple(sorted({str(address[0]) for *_, address in found}))
