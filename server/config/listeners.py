"""`listeners`, `advertised.listeners` and related keys, read and checked as Apache Kafka does.

A listener is `NAME://host:port`; an IPv6 address stands in brackets, an empty host means every interface. Its
security protocol comes from `listener.security.protocol.map`. Listeners that `controller.listener.names` names carry
the quorum.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.configs import InvalidConfig

if TYPE_CHECKING:
    from ...metadata.configs import BrokerValues

_ENDPOINT = re.compile(r"^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$")
#: Kafka's numbers for the security protocols.
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
_ANY_HOST = "0.0.0.0"
#: Names that every machine has.
_LOOPBACK = {"localhost": "127.0.0.1"}


class CannotListen(OSError):
    """An address cannot be had: it is in use, not of this machine, or not allowed. `key` is the property that names it."""

    def __init__(self, error: OSError, words: str, key: str) -> None:
        super().__init__(error.errno, words)
        self.key = key


class ListenerEndpoint(NamedTuple):
    """`host` is "" for every interface; `protocol` is one of SECURITY_PROTOCOLS."""

    name: str
    protocol: str
    host: str
    port: int


class Listeners(NamedTuple):
    """The values of all keys about listeners. Names are in upper case."""

    brokers: tuple[ListenerEndpoint, ...]
    controllers: tuple[ListenerEndpoint, ...]
    #: The addresses that clients and brokers get: `advertised.listeners`, or `brokers` when that is not set.
    advertised: tuple[ListenerEndpoint, ...]
    #: The addresses that nodes of the quorum get; empty where `advertised.listeners` has no controller listener.
    advertised_controllers: tuple[ListenerEndpoint, ...]
    inter_broker_name: str
    #: The listener on which this node connects to controllers: the first of `controller.listener.names`.
    controller_name: str
    #: Listener name to security protocol.
    protocols: Mapping[str, str]
    #: The listeners that accept connections before the metadata is there: those of controllers, and `early.start.listeners`.
    early: frozenset[str]


def read_listeners(values: BrokerValues) -> Listeners:
    """Raises InvalidConfig, saying what to change."""
    protocols = _protocols(values)
    bound = _endpoints("listeners", _texts(values, "listeners"), protocols)
    _check_distinct_ports(bound)
    said = values.get("advertised.listeners")
    advertised = (
        bound if said is None else _endpoints("advertised.listeners", _texts(values, "advertised.listeners"), protocols)
    )
    controller_names = [name.upper() for name in _texts(values, "controller.listener.names")]
    found = Listeners(
        brokers=tuple(e for e in bound if e.name not in controller_names),
        controllers=tuple(e for e in bound if e.name in controller_names),
        advertised=tuple(e for e in advertised if e.name not in controller_names),
        advertised_controllers=tuple(e for e in advertised if said is not None and e.name in controller_names),
        inter_broker_name=_inter_broker_name(values, protocols),
        controller_name=controller_names[0] if controller_names else "",
        protocols=protocols,
        early=_early(values, {endpoint.name for endpoint in bound}, controller_names),
    )
    _check(found, bound, _texts(values, "process.roles"))
    _check_metrics(values, bound)
    return found


def _early(values: BrokerValues, bound: set[str], controller_names: list[str]) -> frozenset[str]:
    key = "early.start.listeners"
    value = values.get(key)
    listed = [name.strip().upper() for name in value if name.strip()] if isinstance(value, tuple) else []
    for name in listed:
        if name not in bound and name not in controller_names:
            raise InvalidConfig(
                f"{key} contains listener {name}, but this is not contained in listeners or controller.listener.names"
            )
    return frozenset((*listed, *controller_names))


def _texts(values: BrokerValues, name: str) -> tuple[str, ...]:
    value = values.get(name)
    assert isinstance(value, tuple)
    return value


def _protocols(values: BrokerValues) -> dict[str, str]:
    """Listener name to security protocol; controller listeners are PLAINTEXT unless a property sets another one."""
    key = "listener.security.protocol.map"
    found: dict[str, str] = {}
    for entry in str(values.get(key)).split(","):
        name, colon, protocol = entry.strip().rpartition(":")
        if entry.strip() and not colon:
            raise InvalidConfig(f"{key}: {entry.strip()!r} is not NAME:PROTOCOL")
        if protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise InvalidConfig(f"Invalid security protocol `{protocol.strip()}` defined in {key}")
        found[name.strip().upper()] = protocol.strip().upper()
    if key not in values.texts:
        controllers = [name.upper() for name in _texts(values, "controller.listener.names")]
        names = {text.partition(":")[0].upper() for text in _texts(values, "listeners")} | set(controllers)
        if not names & (SECURITY_PROTOCOLS.keys() - {"PLAINTEXT"}):
            found |= dict.fromkeys(controllers, "PLAINTEXT")
    return found


def _endpoints(key: str, texts: Iterable[str], protocols: Mapping[str, str]) -> tuple[ListenerEndpoint, ...]:
    endpoints = tuple(_endpoint(key, text, protocols) for text in texts)
    if len({endpoint.name for endpoint in endpoints}) != len(endpoints):
        raise InvalidConfig(f"{key}: each listener must have a unique name: {','.join(texts)}")
    return endpoints


def _endpoint(key: str, text: str, protocols: Mapping[str, str]) -> ListenerEndpoint:
    found = _ENDPOINT.match(text)
    if not found:
        raise InvalidConfig(f"{key}: {text!r} is not NAME://host:port (write an IPv6 address in brackets)")
    name, host, port = found.group(1).upper(), found.group(2), _port(found.group(3))
    if not _is_host(host):
        raise InvalidConfig(f"{key}: {host!r} in {text!r} is not a host name: each part must have 1 to 63 characters")
    if port is None:
        raise InvalidConfig(f"{key}: the port of {text!r} must be from 0 (any free port) to 65535")
    if name not in protocols:
        raise InvalidConfig(
            f"{key}: no security protocol is defined for listener {name}; "
            f"add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    return ListenerEndpoint(name, protocols[name], host, port)


def _port(digits: str) -> int | None:
    """None for a number that no port has, however long."""
    number = digits.lstrip("0") or "0"
    return int(number) if len(number) <= 5 and 0 <= int(number) <= 65535 else None


def _is_host(host: str) -> bool:
    """False for a name that no resolver takes (RFC 1035)."""
    if ":" in host or not host:
        return True
    return len(host) <= 253 and all(1 <= len(label) <= 63 for label in host.removesuffix(".").split("."))


def _check_distinct_ports(bound: Iterable[ListenerEndpoint]) -> None:
    """Two listeners may share a port only as one IPv4 and one IPv6 address (KIP-797)."""
    by_port: dict[int, list[ListenerEndpoint]] = defaultdict(list)
    for endpoint in bound:
        if endpoint.port:
            by_port[endpoint.port].append(endpoint)
    for port, sharing in by_port.items():
        if len(sharing) > 1 and sorted(_ip_version(endpoint.host) for endpoint in sharing) != [4, 6]:
            names = ",".join(f"{e.name}://{e.host}:{e.port}" for e in sharing)
            raise InvalidConfig(
                f"listeners: each listener must have a unique port, or one an IPv4 and the other an IPv6 address; "
                f"port {port} is named by {names}"
            )


def _check_metrics(values: BrokerValues, bound: Iterable[ListenerEndpoint]) -> None:
    """Metrics have an address of their own: else the first socket that listens takes the connections of both."""
    port, host = values.get("odradek.metrics.port"), str(values.get("odradek.metrics.host"))
    for endpoint in bound:
        if port and endpoint.port == port and _may_overlap(endpoint.host, host):
            raise InvalidConfig(
                f"odradek.metrics.port={port} is the port of listener {endpoint.name}://{endpoint.host}:{endpoint.port} "
                "too: set one of them to another port"
            )


def _may_overlap(host: str, other: str) -> bool:
    """Returns True if two hosts may stand for one address; a name may stand for any."""
    addresses = (_LOOPBACK.get(host, host), _LOOPBACK.get(other, other))
    if addresses[0] == addresses[1] or not all(map(_ip_version, addresses)):
        return True
    return any(ipaddress.ip_address(address).is_unspecified for address in addresses)


def _ip_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _inter_broker_name(values: BrokerValues, protocols: Mapping[str, str]) -> str:
    name = values.get("inter.broker.listener.name")
    if name is None:
        return str(values.get("security.inter.broker.protocol"))
    if "security.inter.broker.protocol" in values.texts:
        raise InvalidConfig("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    if str(name).upper() not in protocols:
        raise InvalidConfig(
            f"Listener with name {str(name).upper()} defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map."
        )
    return str(name).upper()


def _check_controller(listeners: Listeners) -> None:
    if listeners.brokers or not listeners.controllers:
        raise InvalidConfig(
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller"
        )


def _check(listeners: Listeners, bound: Iterable[ListenerEndpoint], roles: tuple[str, ...]) -> None:
    if "broker" not in roles:
        _check_controller(listeners)
        return
    if "controller" not in roles and listeners.controllers:
        raise InvalidConfig(
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running "
            "KRaft with just the broker role"
        )
    if not listeners.brokers or not listeners.advertised:
        raise InvalidConfig(
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?"
        )
    names = [endpoint.name for endpoint in bound]
    advertised = [endpoint.name for endpoint in listeners.advertised]
    if not set(advertised) <= set(names):
        raise InvalidConfig(
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found "
            f"{','.join(advertised)}. The valid options based on the current configuration are {','.join(names)}"
        )
    if listeners.inter_broker_name not in advertised:
        raise InvalidConfig(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based "
            f"on currently configured listeners are {','.join(advertised)}"
        )
    if any(endpoint.host == _ANY_HOST for endpoint in listeners.advertised):
        raise InvalidConfig(
            f"advertised.listeners cannot use the nonroutable meta-address {_ANY_HOST}. Use a routable IP address. "
            "(Set advertised.listeners to the name or address by which clients reach this machine.)"
        )
