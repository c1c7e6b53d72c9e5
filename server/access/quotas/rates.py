"""Rates as Apache Kafka measures them: sums over windows, a bucket of tokens, and the time that a client is throttled for.

A window is `window_ms` long and `windows` of them count, the current one included (`quota.window.num`,
`quota.window.size.seconds`). All times are ms, of any clock that goes on.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ....metadata.client_quotas import IP
from .sensors import MOST_SENSORS, RateSensor

if TYPE_CHECKING:
    from ....metadata.image import QuotaEntity


#: A throttle time is an INT32 on the wire.
LONGEST_THROTTLE_MS = 2**31 - 1


class Rate:
    """The recorded amount per second over the last windows (KIP-13).

    A window begins with the first value after the one before is over, so idle time is in none of them. The rate is over at
    least `windows` - 1 whole windows: a burst after a pause is averaged over all of them.
    """

    __slots__ = (
        "_began_ms", "_current", "_kept", "_most", "_others", "_valid_until_ms", "_window", "_window_ends_ms",
        "_window_ms", "_windows",
    )  # fmt: skip

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        #: The windows that count, each [start, time of the last value, sum], and one that overlaps their beginning.
        self._kept: list[list[float]] = []
        self._current = 0
        #: Until a time the sum of all windows but the current one, and when the first one began.
        self._valid_until_ms, self._others, self._began_ms = 0, 0.0, 0
        #: The current window, and when it is over.
        self._window: list[float] = []
        self._window_ends_ms = 0
        self._most = 0.0

    def set_surely_within(self, bound: float) -> None:
        """Sets the rate for `guaranteed_allowance`."""
        # A rate is over `windows` - 1 windows or more: a sum that is within the bound for these is within it.
        self._most = bound * (self._windows - 1) * self._window_ms / 1000

    def guaranteed_allowance(self, now_ms: int) -> tuple[float, int]:
        """Returns how much may be recorded before a time, in this window, for the rate to be within the bound for certain.

        `measure` was just asked.
        """
        return self._most - self._others - self._window[2], min(self._window_ends_ms, self._valid_until_ms)

    def record(self, value: float, now_ms: int) -> None:
        if now_ms >= self._window_ends_ms:
            self._begin_window(now_ms)
        window = self._window
        window[1] = now_ms
        window[2] += value

    def _begin_window(self, now_ms: int) -> None:
        kept = self._kept
        if kept:
            self._current = (self._current + 1) % (self._windows + 1)
        if self._current == len(kept):
            kept.append([now_ms, now_ms, 0.0])
        self._window = window = kept[self._current]
        window[0], window[2] = now_ms, 0.0
        self._valid_until_ms = 0
        self._window_ends_ms = now_ms + self._window_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """Returns the rate per second, and the ms that it is an average over."""
        if now_ms >= self._valid_until_ms:
            self._look(now_ms)
        total = self._others + self._kept[self._current][2] if self._kept else 0.0
        elapsed_ms = now_ms - self._began_ms
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        elapsed_ms = max(elapsed_ms, 1)
        return total * 1000 / elapsed_ms, elapsed_ms

    def _look(self, now_ms: int) -> None:
        """Empties the windows that do not count any more, and adds up the others."""
        over_ms = self._windows * self._window_ms
        began_ms, last_ms, others = now_ms, now_ms, 0.0
        for index, window in enumerate(self._kept):
            if window[1] <= now_ms - over_ms:
                window[0], window[1], window[2] = now_ms, now_ms, 0.0
                if index == self._current:
                    self._window_ends_ms = now_ms + self._window_ms
            elif window[0] < began_ms:
                began_ms = int(window[0])
            last_ms = min(last_ms, int(window[1]))
            if index != self._current:
                others += window[2]
        self._valid_until_ms, self._others, self._began_ms = last_ms + over_ms, others, began_ms


class TokenBucket:
    """Tokens that come at the rate of a quota, and collect for as long as all windows take (KIP-599).

    It is empty at the time 0, long ago: a new bucket is full. Below zero the quota is exceeded.
    """

    __slots__ = ("_tokens", "_updated_ms", "_whole_s")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._whole_s = windows * window_ms / 1000
        self._tokens = 0.0
        self._updated_ms = 0

    def measure(self, bound: float, now_ms: int) -> float:
        """Returns the tokens that there are; negative when more were taken than came."""
        burst = self._whole_s * bound
        self._tokens = min(burst, self._tokens + bound * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def record(self, value: float, bound: float, now_ms: int) -> None:
        self._tokens = min(self._whole_s * bound, self.measure(bound, now_ms) - value)


def rate_throttle_ms(rate: float, bound: float, over_ms: int) -> int:
    """Returns the pause after which a rate over `over_ms` has come down to `bound`; 0 if it is not above."""
    return _rounded((rate - bound) / bound * over_ms) if rate > bound else 0


def bucket_throttle_ms(tokens: float, bound: float) -> int:
    """Returns the time until a bucket is at zero again; 0 if it is not below."""
    return _rounded(-tokens / bound * 1000) if tokens < 0 else 0


def _rounded(time_ms: float) -> int:
    """Rounds as Java's Math.round does."""
    return LONGEST_THROTTLE_MS if time_ms >= LONGEST_THROTTLE_MS else math.floor(time_ms + 0.5)


# The rate of new connections of each address, against its quota (KIP-612).
#
# A quota names an address or a host. Hosts are resolved when the quota is set, and after a start.
# Names of hosts in quotas of addresses: each is resolved off the loop, with a deadline (KIP-612).


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


log = logging.getLogger("odradek.quotas")


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

    def _resolved(self, found: Addresses) -> None:
        for host, addresses in found.items():
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
