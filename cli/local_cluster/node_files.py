"""The folder of a node of a cluster on one machine: its formatted log directories, and its properties."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..data_locations import NODE_FILE, log_dirs_of
from .plan import CONTROLLER, HOST, METRICS_PORT, ListenerNames, Plan, PlannedNode

if TYPE_CHECKING:
    from ...protocol.internal.cluster_metadata import UserScramCredentialRecord


def node_directory(directory: Path, node: PlannedNode) -> Path:
    return directory / f"node-{node.id}"


def properties_file(directory: Path, node: PlannedNode) -> Path:
    return node_directory(directory, node) / NODE_FILE


def log_dirs(directory: Path, node: PlannedNode) -> str:
    """The log directories where the node ran last, as `log.dirs` lists them. Raises ValueError."""
    return log_dirs_of(node_directory(directory, node))


def format_node(
    plan: Plan, directory: Path, node: PlannedNode, users: Sequence[UserScramCredentialRecord] = ()
) -> None:
    """Formats the log directories of a node that are not formatted. `users`: of a new cluster. Raises InvalidConfig,
    InvalidMetaProperties, OSError.
    """
    from ...client.properties_file import read_properties
    from ...server.config.broker_config import BrokerConfig
    from ...server.controller.formatting import format_directories

    config = BrokerConfig(read_properties(properties_file(directory, node)))
    format_directories(config, plan.cluster_id, ignore_formatted=True, users=users)


def name_log_dirs(directory: Path, node: PlannedNode) -> None:
    """Writes the log directories where the node ran last into its properties. Raises InvalidConfig, ValueError, OSError."""
    from ...client.properties_file import format_properties, read_properties
    from ...server.access.authority import write_secret

    file = properties_file(directory, node)
    found = read_properties(file)
    place = {"log.dirs": log_dirs(directory, node)}
    if found != found | place:
        write_secret(file, format_properties(found | place))


def properties(plan: Plan, node: PlannedNode, directory: Path, overrides: dict[str, str]) -> dict[str, str]:
    """Every topic has three replicas and takes writes while two live, where there are so many brokers."""
    replicas = min(3, len(plan.nodes))
    min_isr = max(1, replicas - 1)
    names = ListenerNames.of(overrides)
    advertised = f"{names.clients}://{node.address}"
    if names.internal:
        advertised += f",{names.internal}://{HOST}:{node.internal_port}"
    listeners = advertised
    if node.controller_port:
        listeners += f",{CONTROLLER}://{HOST}:{node.controller_port}"
    made = {
        "process.roles": node.roles,
        "node.id": node.id,
        "listeners": listeners,
        "advertised.listeners": advertised,
        "controller.listener.names": CONTROLLER,
        "controller.quorum.voters": plan.voters,
        "log.dirs": log_dirs(directory, node),
        "default.replication.factor": replicas,
        "min.insync.replicas": min_isr,
    }
    if replicas < 3:  # Kafka's defaults for its own topics are three replicas, two of them in sync
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            made[f"{topic}.replication.factor"] = replicas
        made["transaction.state.log.min.isr"] = made["share.coordinator.state.topic.min.isr"] = min_isr
    return {key: str(value) for key, value in made.items()} | overrides | _metrics_port(node, overrides)


def _metrics_port(node: PlannedNode, overrides: dict[str, str]) -> dict[str, str]:
    """The port that is said is the first node's; the others have those after it. 0 is any free one for each."""
    said = overrides.get(METRICS_PORT, "")
    if not said.isdecimal() or not int(said):
        return {}
    return {METRICS_PORT: str(int(said) + node.id - 1)}


class NodeSecurity(Protocol):
    """The part of a cluster's security that each node has for itself."""

    def node_properties(self, node: PlannedNode) -> dict[str, str]: ...


def write_properties(
    plan: Plan, directory: Path, overrides: dict[str, str], security: NodeSecurity | None = None
) -> None:
    """`overrides`: the properties that all nodes have. Only the owner reads the files: they may hold passwords."""
    from ...client.properties_file import format_properties
    from ...server.access.authority import write_secret
    from ...storage.files.modes import make_folder

    for node in plan.nodes:
        make_folder(node_directory(directory, node))
        own = security.node_properties(node) if security is not None else {}
        text = format_properties(properties(plan, node, directory, own | overrides))
        write_secret(properties_file(directory, node), text)
