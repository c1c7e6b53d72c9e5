"""The rate of new connections of each address, against its quota (KIP-612).

A quota names an address or a host. Hosts are resolved when the quota is set, and after a start.
Names of hosts in quotas of addresses: each is resolved off the loop, with a deadline (KIP-612).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ....metadata.client_quotas import IP
from .sensors import MOST_SENSORS, RateSensor

if TYPE_CHECKING:
    from ....metadata.image import QuotaEntity

log = logging.getLogger("odradek.quotas")
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


async def _resolve(names: list[str], addresses: Addresses, done: Callable[[Addresses], None]) -> None:
    addresses.update(zip(names, await asyncio.gather(*map(_addresses, names))))
    done(addresses)


async def _addresses(name: str) -> tuple[str, ...]:
    looking = asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.wait_for(looking, RESOLVE_TIMEOUT_S)
    except (OSError, UnicodeError, TimeoutError):
        return ()
    return tuple(sorted({str(address[0]) for *_, address in found}))


class ConnectionRates:
    """Limits the rate of new connections by address. `make` makes a sensor; `longest_ms` bounds a pause."""

    def __init__(self, make: Callable[[], RateSensor], longest_ms: int) -> None:
        self._make = make
        self._longest_ms = longest_ms
        self._default: float | None = None
        self._by_address: dict[str, float] = {}
        #: The addresses that were found for each host with a quota.
        self._hosts: dict[str, tuple[str, ...]] = {}
        #: The quota of each host, also of one that is being resolved.
        self._host_quotas: dict[str, float] = {}
        self._sensors: dict[str, RateSensor] = {}

    @property
    def is_on(self) -> bool:
        return self._default is not None or bool(self._by_address)

    def set(self, entity: QuotaEntity, per_second: float | None) -> None:
        """Sets the quota of an entity; None removes it."""
        name = dict(entity).get(IP)
        if name is None:
            self._default = per_second
        elif is_address(name):
            self._set_address(_normal(name), per_second)
        else:
            self._set_host(name, per_second)

    def throttle_ms(self, address: str, now_ms: int) -> int:
        """Counts a new connection. Returns for how long it has to be refused, in ms; 0 when it may be served."""
        bound = self._by_address.get(address, self._default)
        if bound is None:
            return 0
        sensor = self._sensors.pop(address, None) or self._make()
        if len(self._sensors) >= MOST_SENSORS:
            del self._sensors[next(iter(self._sensors))]
        self._sensors[address] = sensor
        sensor.bound = bound
        throttle_ms = sensor.record(1.0, now_ms)
        if throttle_ms:
            sensor.record(-1.0, now_ms)  # it is not served
        return min(throttle_ms, self._longest_ms)

    def _set_address(self, address: str, per_second: float | None) -> None:
        if per_second is None:
            self._by_address.pop(address, None)
        else:
            self._by_address[address] = per_second

    def _set_host(self, host: str, per_second: float | None) -> None:
        for address in self._hosts.pop(host, ()):
            self._set_address(address, None)
        if per_second is None:
            self._host_quotas.pop(host, None)
            return
        self._host_quotas[host] = per_second
        resolve([host], self._resolved)

    def _resolved(self, resolved: Addresses) -> None:
        for host, addresses in resolved.items():
            per_second = self._host_quotas.get(host)
            if per_second is None:
                continue
            if not addresses:
                log.warning("the host %r of a quota of connections cannot be resolved: the quota has no effect", host)
            self._hosts[host] = tuple(map(_normal, addresses))
            for address in self._hosts[host]:
                self._set_address(address, per_second)


def _normal(address: str) -> str:
    """Returns an address as connections show it."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)
