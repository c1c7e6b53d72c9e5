"""The processes of a machine and their properties, from the one configuration of the service.

Brokers and controller are nodes of their own: the controller has the service's node.id, brokers have the ids after it, and
listen on the service's ports and those after them. All have one `broker.rack`, so the controller places the replicas of a
partition on different machines. Each keeps its data in a folder `node-ID` below each log directory of the service.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..command_parser import UsageError
from ..local_cluster.plan import MOST_PORT, bind_to_any

if TYPE_CHECKING:
    from ...server.config.broker_config import BrokerConfig
    from ...server.config.listeners import ListenerEndpoint

METRICS_PORT: Final = "odradek.metrics.port"
METRICS_HOST: Final = "odradek.metrics.host"
_VOTERS = "controller.quorum.voters"
_CONTROLLER = "CONTROLLER"
_LOOPBACK = "127.0.0.1"
_VOTER = re.compile(r"(\d+)@\[?([^@\]]+)\]?:(\d+)")


@dataclass(frozen=True)
class Member:
    """A process of the service. `properties` are those of its node, without metrics."""

    node_id: int
    role: str
    properties: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.role} {self.node_id}"


@dataclass(frozen=True)
class Service:
    """`metrics`: host and port of the service's own endpoint; None where it has none."""

    members: tuple[Member, ...]
    root: Path
    metrics: tuple[str, int] | None
    is_one_machine: bool

    @property
    def brokers(self) -> list[Member]:
        return [member for member in self.members if member.role == "broker"]


def service_of(given: Mapping[str, str], count: int) -> Service:
    """Returns the service of `count` brokers that has these properties. Raises UsageError and InvalidConfig."""
    from ...server.config.broker_config import BrokerConfig

    config = BrokerConfig(given)
    if given.get("controller.quorum.bootstrap.servers"):
        raise UsageError(f"--processes: name the controllers in {_VOTERS}, not in controller.quorum.bootstrap.servers")
    roots = config.log_dirs
    for root in roots:
        if (Path(root) / "meta.properties").exists():
            raise UsageError(
                f"--processes: {root} holds the data of a node that ran alone; choose another directory, or start it without"
            )
    voters = _voters(given.get(_VOTERS, ""))
    brokers = [_Ports.of(config, number) for number in range(count)]
    _check_distinct(brokers, config, count)
    shared = _shared(given, config, voters, brokers)
    made = []
    if _has_controller(config, given, voters):
        made.append(_controller(config, shared, roots))
    made += [_broker(config, shared, ports, number, roots) for number, ports in enumerate(brokers)]
    port = config.get(METRICS_PORT)
    metrics = (config.get(METRICS_HOST), port) if port is not None and port >= 0 else None
    return Service(tuple(made), Path(roots[0]), metrics, not voters)


def _voters(text: str) -> dict[int, str]:
    """Each voter's address, by node id."""
    found = {}
    for entry in filter(None, (one.strip() for one in text.split(","))):
        match = _VOTER.fullmatch(entry)
        if match is not None:
            found[int(match[1])] = entry.partition("@")[2]
    return found


def _has_controller(config: BrokerConfig, given: Mapping[str, str], voters: Mapping[int, str]) -> bool:
    is_wanted = "process.roles" not in given or config.is_controller
    if voters and is_wanted and "process.roles" in given and config.node_id not in voters:
        raise UsageError(f"--processes: {_VOTERS} does not name node {config.node_id}, the controller of this machine")
    if not voters and not is_wanted:
        raise UsageError(
            f"--processes: a machine without a controller needs {_VOTERS}, which names those of the others"
        )
    return config.node_id in voters if voters else True


@dataclass(frozen=True)
class _Ports:
    """The listeners of one broker, as texts of properties."""

    listeners: str
    advertised: str | None
    ports: tuple[int, ...]

    @classmethod
    def of(cls, config: BrokerConfig, number: int) -> _Ports:
        found = config.listeners
        bound = [_shifted(one, number) for one in found.brokers]
        advertised = None
        if found.advertised != found.brokers:
            chosen = {one.name: port for one, (_, port) in zip(found.brokers, bound)}
            advertised = ",".join(
                _text(one, one.port + number if one.port else chosen[one.name]) for one in found.advertised
            )
        return cls(",".join(text for text, _ in bound), advertised, tuple(port for _, port in bound))


def _shifted(endpoint: ListenerEndpoint, number: int) -> tuple[str, int]:
    port = endpoint.port + number if endpoint.port else free_port()
    if port > MOST_PORT:
        raise UsageError(
            f"--processes: port {endpoint.port} leaves no ports for broker {number + 1}: {MOST_PORT} is the last"
        )
    return _text(endpoint, port), port


def _text(endpoint: ListenerEndpoint, port: int) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.name}://{host}:{port}"


def _check_distinct(brokers: Sequence[_Ports], config: BrokerConfig, count: int) -> None:
    taken = [port for one in brokers for port in one.ports]
    taken += [one.port for one in config.listeners.controllers if one.port]
    if metrics_port := config.get(METRICS_PORT):
        taken.append(metrics_port)
    for port in taken:
        if taken.count(port) > 1:
            raise UsageError(
                f"--processes {count}: two listeners would have port {port}; leave {count} ports free after each listener"
            )


def _shared(
    given: Mapping[str, str], config: BrokerConfig, voters: Mapping[int, str], brokers: Sequence[_Ports]
) -> dict[str, str]:
    """The properties that all members have."""
    from ...server.config.broker_config import SINGLE_NODE_DEFAULTS

    own = ("listeners", "advertised.listeners", "process.roles", "broker.id", "log.dir", METRICS_PORT, METRICS_HOST)
    shared = {key: value for key, value in given.items() if key not in own}
    shared.setdefault("broker.rack", socket.gethostname())
    shared.setdefault("controller.listener.names", _CONTROLLER)
    if not voters:
        last = max((port for one in brokers for port in one.ports), default=0)
        said = next((one.port for one in config.listeners.controllers if one.port), 0)
        follows = any(one.port for one in config.listeners.brokers) and last < MOST_PORT
        port = said or (last + 1 if follows else free_port())
        shared[_VOTERS] = f"{config.node_id}@{_LOOPBACK}:{port}"
        # A machine alone has nowhere else to place a second replica.
        shared = SINGLE_NODE_DEFAULTS | shared
    return shared


def _controller(config: BrokerConfig, shared: Mapping[str, str], roots: Sequence[str]) -> Member:
    found = config.listeners
    name = shared["controller.listener.names"].partition(",")[0].strip().upper()
    address = _voters(shared[_VOTERS])[config.node_id]
    texts = [_text(one, one.port or int(address.rpartition(":")[2])) for one in found.controllers]
    own = {
        "process.roles": "controller",
        "node.id": str(config.node_id),
        "listeners": ",".join(texts) or f"{name}://{address}",
        "log.dirs": _folders(roots, config.node_id),
    }
    return Member(config.node_id, "controller", {**shared, **own})


def _broker(
    config: BrokerConfig, shared: Mapping[str, str], ports: _Ports, number: int, roots: Sequence[str]
) -> Member:
    node_id = config.node_id + 1 + number
    own = {
        "process.roles": "broker",
        "node.id": str(node_id),
        "listeners": ports.listeners,
        "log.dirs": _folders(roots, node_id),
    }
    if ports.advertised is not None:
        own["advertised.listeners"] = ports.advertised
    return Member(node_id, "broker", {**shared, **own})


def _folders(roots: Sequence[str], node_id: int) -> str:
    return ",".join(str(Path(root).absolute() / f"node-{node_id}") for root in roots)


def free_port() -> int:
    """Returns a port of 127.0.0.1 that is free now."""
    with socket.socket() as held:
        bind_to_any(held)
        port: int = held.getsockname()[1]
        return port


def format_members(service: Service, cluster_id: str | None, **formatting: object) -> str:
    """Formats the folders that are not formatted yet, all for one cluster. Returns its id. Raises what
    `format_directories` raises.
    """
    from ...metadata.configs import InvalidConfig
    from ...server.config.broker_config import BrokerConfig
    from ...server.controller.formatting import format_directories
    from ...storage.files.meta_properties import read_meta_properties

    configs = [BrokerConfig(member.properties) for member in service.members]
    known = [read_meta_properties(directory) for config in configs for directory in config.log_dirs]
    found = {properties.cluster_id for properties in known if properties is not None}
    if cluster_id is None and not found and not service.is_one_machine:
        raise InvalidConfig(
            f"{service.root}: not formatted, and the cluster has other machines: format it with the cluster id that all "
            "of them share (odradek format --processes N -t ID server.properties)"
        )
    if len(found) > 1:
        raise InvalidConfig(f"{service.root}: its folders belong to several clusters: {', '.join(sorted(found))}")
    chosen = cluster_id if cluster_id is not None else next(iter(found), None)
    for config in configs:
        chosen = format_directories(config, chosen, ignore_formatted=True, **formatting)  # type: ignore[arg-type]
    assert chosen is not None
    return chosen
