"""The nodes of a cluster on one machine, and their ports: `cluster.json` in its directory.

The first three nodes are brokers and controllers, the others brokers: a quorum of three survives the death of one. Two
nodes have one controller, since a quorum of two would not survive any.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ..data_locations import PLAN_FILE

HOST = "127.0.0.1"
CONTROLLERS = 3
MOST_PORT = 65535
#: Below the ports that systems give to outgoing connections, which could take one before its node listens, and below
#: 20,000: this project's tests reserve ports from there on for their brokers (compat_tests/broker_process.py).
_ANY_PORTS = range(10_000, 20_000)
_MOST_TRIES = 100
METRICS_PORT = "odradek.metrics.port"
#: The keys that differ from node to node, or that make the nodes one cluster.
OWN_KEYS = frozenset((
    "process.roles", "node.id", "broker.id", "listeners", "advertised.listeners", "controller.listener.names",
    "controller.quorum.voters", "controller.quorum.bootstrap.servers", "log.dirs", "log.dir", "metadata.log.dir",
))  # fmt: skip

CONTROLLER = "CONTROLLER"


class CannotListen(Exception):
    """The port that a person asked for cannot be had."""


@dataclass(frozen=True)
class PlannedNode:
    """`controller_port` is 0 for a mere broker, `internal_port` where brokers meet on the listener of clients."""

    id: int
    port: int
    controller_port: int = 0
    internal_port: int = 0

    @property
    def roles(self) -> str:
        return "broker,controller" if self.controller_port else "broker"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(frozen=True)
class Plan:
    cluster_id: str
    nodes: tuple[PlannedNode, ...]

    @property
    def voters(self) -> str:
        return ",".join(f"{node.id}@{HOST}:{node.controller_port}" for node in self.nodes if node.controller_port)

    @property
    def addresses(self) -> list[str]:
        return [node.address for node in self.nodes]


def read_plan(directory: Path) -> Plan | None:
    """None when there is no cluster in the directory. Raises ValueError when the file is not one of ours, OSError."""
    try:
        data = json.loads((directory / PLAN_FILE).read_text(encoding="utf-8"))
        plan = Plan(data["cluster_id"], tuple(PlannedNode(**node) for node in data["nodes"]))
        _check(plan)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{directory / PLAN_FILE} is not what `odradek cluster start` wrote: {error}") from None
    return plan


def _check(plan: Plan) -> None:
    """Raises ValueError."""
    ids = [node.id for node in plan.nodes]
    if not isinstance(plan.cluster_id, str) or ids != list(range(1, len(ids) + 1)) or not ids:
        raise ValueError("it has a cluster id, and nodes that are numbered from 1")
    for node in plan.nodes:
        for port in (node.port, node.controller_port, node.internal_port):
            if type(port) is not int or not 0 <= port <= MOST_PORT:
                raise ValueError(f"node {node.id} has port {port!r}")


def write_plan(directory: Path, plan: Plan) -> None:
    from ...storage.files.modes import make_folder

    make_folder(directory)
    written = directory / f"{PLAN_FILE}.tmp"
    with written.open("w", encoding="utf-8") as file:
        file.write(json.dumps(asdict(plan), indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    written.replace(directory / PLAN_FILE)


class ListenerNames(NamedTuple):
    """`internal` is "" where brokers meet on the listener of clients."""

    clients: str
    internal: str

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ListenerNames:
        """Returns those that the properties of all nodes name: in `inter.broker.listener.name` and in the map of
        protocols, or in `security.inter.broker.protocol`.
        """
        entries = properties.get("listener.security.protocol.map", "").upper().split(",")
        names = [entry.partition(":")[0].strip() for entry in entries if entry.strip()]
        internal = properties.get("inter.broker.listener.name", "").strip().upper()
        clients = [name for name in names if name not in (CONTROLLER, internal)]
        if internal and clients:
            return cls(clients[0], internal)
        return cls(internal or properties.get("security.inter.broker.protocol", "PLAINTEXT").strip().upper(), "")


def grown(plan: Plan | None, brokers: int, first_port: int | None, *, has_internal: bool = False) -> Plan:
    """The plan with this many brokers; nodes that are there keep their ids. Raises ValueError where it has more already."""
    from ...protocol.uuids import uuid_to_text
    from ...replication.random_source import random_uuid

    if first_port is not None and first_port + brokers - 1 > MOST_PORT:
        raise ValueError(f"--port {first_port} leaves no ports for {brokers} brokers: the last is {MOST_PORT}")
    known = plan.nodes if plan is not None else ()
    if len(known) > brokers:
        raise ValueError(f"this cluster has {len(known)} brokers already; for fewer brokers, choose another --data-dir")
    cluster_id = plan.cluster_id if plan is not None else uuid_to_text(random_uuid(random.SystemRandom()))
    controllers = sum(bool(node.controller_port) for node in known)
    if not known:
        controllers = CONTROLLERS if brokers >= CONTROLLERS else 1
    nodes = known + tuple(PlannedNode(number, 0) for number in range(len(known) + 1, brokers + 1))
    return Plan(cluster_id, _with_ports(nodes, controllers, first_port, has_internal))


def _with_ports(
    nodes: tuple[PlannedNode, ...], controllers: int, first_port: int | None, has_internal: bool
) -> tuple[PlannedNode, ...]:
    """All nodes start together, so a port that another program has taken meanwhile can be replaced."""
    taken: list[socket.socket] = []
    try:
        found = []
        for number, node in enumerate(nodes):
            wanted = first_port + number if first_port else node.port
            port = _free_port(wanted, taken, must_be=bool(first_port))
            is_controller = number < controllers
            controller_port = _free_port(node.controller_port, taken) if is_controller else 0
            internal_port = _free_port(node.internal_port, taken) if has_internal else 0
            found.append(replace(node, port=port, controller_port=controller_port, internal_port=internal_port))
        return tuple(found)
    finally:
        for held in taken:
            held.close()


def _free_port(wanted: int, taken: list[socket.socket], *, must_be: bool = False) -> int:
    """`wanted` where it is free, else any; all stay held until every one was found. Raises CannotListen where it must be."""
    held = socket.socket()
    taken.append(held)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if wanted:
            held.bind((HOST, wanted))
        else:
            bind_to_any(held)
    except OSError as error:
        if must_be:
            reason = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise CannotListen(
                f"cannot listen on {HOST}:{wanted}: {reason}; choose another --port, 0 for any"
            ) from None
        bind_to_any(held)
    port: int = held.getsockname()[1]
    return port


def bind_to_any(held: socket.socket) -> None:
    """Binds the socket to a free port of this machine, which no other socket has while it is open."""
    # Two sockets with this option have the same port, as long as neither listens.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    for port in random.SystemRandom().sample(_ANY_PORTS, _MOST_TRIES):
        with contextlib.suppress(OSError):
            held.bind((HOST, port))
            return
    held.bind((HOST, 0))
