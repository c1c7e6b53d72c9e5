"""The quotas of clients of this node, as the metadata has them, and what clients have used.

Without a quota for bytes or requests nothing is measured: `on_metering` tells the dispatcher of clients when to
begin and when to stop (KIP-13, KIP-55, KIP-124, KIP-599).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ....metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from .sensors import (
    LONGEST_KEPT_ID,
    MOST_CLIENTS,
    MOST_SENSORS,
    BucketSensor,
    Find,
    Meters,
    Quota,
    QuotaGeneration,
    RateSensor,
    Sensors,
    Share,
)

if TYPE_CHECKING:
    from ....metadata.image import QuotaEntity
    from ...config.broker_config import BrokerConfig


# Quotas by a class of a user's own: `client.quota.callback.class=python:package.module:Name` (KIP-257).
#
# It decides which clients share a quota, and the quota. Without it both follow from the quotas in the metadata of the
# cluster.


log = logging.getLogger("odradek.quotas")


class QuotaKind(Enum):
    """The kinds of quotas. The units of their limits: bytes a second, percent of a second, partitions a second."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


@runtime_checkable
class ClientQuotaCallback(Protocol):
    """Decides on the quotas of clients. It runs in the event loop: it must answer at once, from memory.

    A quota that it returns for a client is kept until `quota_reset_required` returns True.
    """

    def quota_tags(self, kind: QuotaKind, principal: str, client_id: str) -> Mapping[str, str]:
        """Returns what names the quota of a client: clients with the same tags share one. `principal`: "User:alice"."""

    def quota_limit(self, kind: QuotaKind, tags: Mapping[str, str]) -> float | None:
        """Returns the limit for these tags; None for no limit."""

    def quota_reset_required(self, kind: QuotaKind) -> bool:
        """Returns whether a limit may have changed since the last call. The broker calls it for each request."""


@runtime_checkable
class FollowsQuotas(Protocol):
    """A callback that uses the quotas in the metadata of the cluster, as `kafka-configs.sh` sets them."""

    def quotas_changed(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Takes all quotas by entity: pairs of "user", "client-id" or "ip" and a name, None for the default."""


class OwnQuotas:
    """The quotas of a callback. An exception is logged, and the client then has no quota."""

    def __init__(self, callback: ClientQuotaCallback) -> None:
        self._callback = callback

    def quota(self, kind: QuotaKind, principal: str, client_id: str) -> Quota | None:
        """Returns the quota of a client, and the clients that share it."""
        try:
            tags = self._callback.quota_tags(kind, principal, client_id)
            limit = self._callback.quota_limit(kind, tags)
            return None if limit is None else Quota(Share(repr(sorted(tags.items())), ""), float(limit))
        except Exception:
            log.exception("%s failed; %s has no quota", type(self._callback).__name__, kind.value)
            return None

    def have_changed(self, kinds: Iterable[QuotaKind]) -> bool:
        """Returns whether a limit of one of the kinds may have changed. It calls the callback for every kind."""
        try:
            return True in [self._callback.quota_reset_required(kind) for kind in kinds]
        except Exception:
            log.exception("%s failed; quotas are unchanged", type(self._callback).__name__)
            return False

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Passes on the quotas in the metadata of the cluster."""
        if isinstance(self._callback, FollowsQuotas):
            try:
                self._callback.quotas_changed(quotas)
            except Exception:
                log.exception("%s failed to apply the quotas of the cluster", type(self._callback).__name__)


Quotas = Mapping["QuotaEntity", Mapping[str, float]]
#: By entity the keys that changed; their values do not matter here.
Changes = Mapping["QuotaEntity", Mapping[str, float | None]]

#: The quotas for which every request of a client is looked at.
_METERED = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
_METERED_KINDS = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST)
_NOTHING: Mapping[str, float] = {}


class ClientQuotas:
    """The quotas of a node and the sensors of its clients."""

    def __init__(self, config: BrokerConfig, callback: OwnQuotas | None = None) -> None:
        self._callback = callback
        windows: int = config.get("quota.window.num")
        window_ms: int = 1000 * config.get("quota.window.size.seconds")
        #: No single response exceeds the quota of fetched bytes: it has at most the bytes of all windows but one, in
        #: seconds.
        self._whole_windows_s = (windows - 1) * window_ms / 1000
        #: A throttle by time spent, and by new connections, is at most so long.
        self.longest_pause_ms = window_ms
        mutation_windows: int = config.get("controller.quota.window.num")
        mutation_window_ms = 1000 * config.get("controller.quota.window.size.seconds")

        def rates() -> RateSensor:
            return RateSensor(windows, window_ms)

        self.produced = Sensors(self._finder(PRODUCER_BYTE_RATE), rates, self._own(QuotaKind.PRODUCE))
        self.fetched = Sensors(self._finder(CONSUMER_BYTE_RATE), rates, self._own(QuotaKind.FETCH))
        self.requests = Sensors(self._finder(REQUEST_PERCENTAGE), rates, self._own(QuotaKind.REQUEST))
        self.mutations = Sensors(
            self._finder(CONTROLLER_MUTATION_RATE),
            lambda: BucketSensor(mutation_windows, mutation_window_ms),
            self._own(QuotaKind.CONTROLLER_MUTATION),
        )
        self.connections = ConnectionRates(rates, self.longest_pause_ms)
        self._on_metering: Callable[[bool], None] = lambda on: None
        #: Clients that have sent a request, by principal and client id.
        self._meters: dict[tuple[str, str | None], Meters] = {}
        #: The same, to be looked at in place of a call of `meters`. Empty where a class of a user's own is to be asked.
        self.known_meters = self._meters if callback is None else {}
        #: The generation of `_meters`. With a user's own callback class, connections cache no meters.
        self._generation = QuotaGeneration()
        self._generation.is_current = callback is None
        for sensors in (self.produced, self.fetched, self.requests):
            sensors.on_dropped = self._forget_meters
        self._quotas: Quotas = {}
        #: By key, the entities that have a quota.
        self._counts: Counter[str] = Counter()
        self._is_metering = False

    @property
    def on_metering(self) -> Callable[[bool], None]:
        """Called with True when requests are to be metered, and with False when they no longer are."""
        return self._on_metering

    @on_metering.setter
    def on_metering(self, function: Callable[[bool], None]) -> None:
        self._on_metering = function
        if self._callback is not None:
            function(True)

    def apply(self, changes: Changes, quotas: Quotas) -> None:
        """Takes over new quotas. `changes` leads from the previous ones to `quotas`."""
        if not changes:
            return
        for entity, changed in changes.items():
            before, after = self._quotas.get(entity, _NOTHING), quotas.get(entity, _NOTHING)
            for key in changed:
                self._counts[key] += (key in after) - (key in before)
            if CONNECTION_CREATION_RATE in changed:
                self.connections.set(entity, after.get(CONNECTION_CREATION_RATE))
        self._quotas = quotas
        if self._callback is not None:
            self._callback.follow(quotas)
        self._forget_quotas()
        is_metering = self._callback is not None or any(self._counts[key] for key in _METERED)
        if is_metering != self._is_metering:
            self._is_metering = is_metering
            self.on_metering(is_metering)

    def _forget_quotas(self) -> None:
        for sensors in (self.produced, self.fetched, self.requests):
            sensors.forget_quotas()
        self.mutations.forget_quotas()
        self._forget_meters()

    def _forget_meters(self) -> None:
        self._meters.clear()
        self._generation.is_current = False
        self._generation = QuotaGeneration()
        self._generation.is_current = self._callback is None

    def user_of(self, principal: str, kind: QuotaKind) -> str:
        """Returns the user of a client for its sensors; with a callback of the user's own, the whole principal."""
        if self._callback is None:
            return principal.partition(":")[2]
        if self._callback.have_changed((kind,)):
            self._forget_quotas()
        return principal

    def meters(self, principal: str, client_id: str | None, now_ms: Callable[[], int]) -> Meters:
        """Returns the sensors of a client. `now_ms` is called for one that has not been seen."""
        if self._callback is not None and self._callback.have_changed(_METERED_KINDS):
            self._forget_quotas()
        found = self._meters.get((principal, client_id))
        return self._learn(principal, client_id, now_ms()) if found is None else found

    def most_fetched_bytes(self, fetched: RateSensor) -> float:
        """Returns how much may be fetched at once without a throttle after a pause."""
        return fetched.bound * self._whole_windows_s

    def _learn(self, principal: str, client_id: str | None, now_ms: int) -> Meters:
        user = principal if self._callback is not None else principal.partition(":")[2]
        client = (user, client_id or "", now_ms)
        sensors = self.produced.of(*client), self.fetched.of(*client), self.requests.of(*client)
        found = Meters(*sensors, self._generation)
        if len(self._meters) >= MOST_CLIENTS:
            self._meters.clear()
        if len(client[1]) <= LONGEST_KEPT_ID:
            self._meters[principal, client_id] = found
        return found

    def _own(self, kind: QuotaKind) -> Callable[[str, str], Quota | None] | None:
        callback = self._callback
        return None if callback is None else partial(callback.quota, kind)

    def _finder(self, key: str) -> Find:
        def find(entity: QuotaEntity) -> float | None:
            return self._quotas.get(entity, _NOTHING).get(key)

        return find


# The quota of changes of a client to topics: partitions created and deleted, counted at the active controller
# (KIP-599).
#
# Versions of a request that know THROTTLING_QUOTA_EXCEEDED are held strictly: no change is made while the quota is
# exceeded, and one that exceeds it is made whole. Of older versions every change is made, and the client is
# throttled.


class MutationQuota:
    """The quota for the changes of one request."""

    __slots__ = ("_is_strict", "_now_ms", "_sensor", "throttle_ms")

    def __init__(self, sensor: BucketSensor, now_ms: int, *, is_strict: bool) -> None:
        self._sensor = sensor
        self._now_ms = now_ms
        self._is_strict = is_strict
        #: The throttle time of the response; 0 while the quota is kept.
        self.throttle_ms = 0

    def rejects(self, partitions: int) -> bool:
        """Counts a change of so many partitions. Returns True if it may not be made, and then is not counted."""
        if not self._is_strict:
            self.throttle_ms = self._sensor.record(partitions, self._now_ms)
            return False
        exceeded_ms = self._sensor.throttle_ms(self._now_ms)
        if exceeded_ms:
            self.throttle_ms = exceeded_ms
            return True
        self._sensor.record(partitions, self._now_ms)
        return False


def mutation_quota(
    quotas: ClientQuotas, principal: str, client_id: str | None, now_ms: int, *, is_strict: bool
) -> MutationQuota | None:
    """Returns the quota that holds for a client's request; None without one."""
    sensor = quotas.mutations.of(quotas.user_of(principal, QuotaKind.CONTROLLER_MUTATION), client_id or "", now_ms)
    return None if sensor is None else MutationQuota(sensor, now_ms, is_strict=is_strict)


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
