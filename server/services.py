"""The parts of a node that handlers may use: nothing else is in their reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..client.peers import Peers
    from ..storage.directory import LogDirectory
    from .access.subsystem import AccessSubsystem
    from .config.broker_config import BrokerConfig
    from .controller.subsystem import ControllerSubsystem
    from .coordinators.subsystem import CoordinatorsSubsystem
    from .network.call import ListenerKind
    from .network.dispatch import Dispatcher, Endpoints
    from .network.listener_set import ListenerSet
    from .partitions.subsystem import PartitionsSubsystem
    from .produce.subsystem import DataPathSubsystem
    from .replicas.subsystem import ReplicasSubsystem
    from .runtime.background import BackgroundTasks
    from .runtime.clock import Clock
    from .runtime.counters import DamageCounters, Metrics
    from .runtime.lazy import Lazy
    from .runtime.log_lines import RepeatedLines
    from .runtime.metadata_cache import MetadataCache
    from .runtime.thread_pools import ThreadPools
    from .runtime.turn_budget import TurnWatch
    from .runtime.waiters import Deadlines, Wakeups
    from .share.subsystem import ShareSubsystem
    from .telemetry import ClientTelemetry


@dataclass(slots=True)
class NodeServices:
    """The parts of every node: all that a handler on a controller listener may use."""

    config: BrokerConfig
    node_id: int
    cluster_id: str
    clock: Clock
    metadata: MetadataCache
    lines: RepeatedLines
    pools: ThreadPools
    metrics: Metrics
    turn_watch: TurnWatch
    damage: DamageCounters
    background: BackgroundTasks
    directories: list[LogDirectory]
    listeners: ListenerSet
    endpoints: Endpoints
    dispatchers: Mapping[ListenerKind, Dispatcher]
    peers: Lazy[Peers]
    controller: ControllerSubsystem
    access: AccessSubsystem


@dataclass(slots=True)
class Services(NodeServices):
    """The parts of a broker."""

    deadlines: Deadlines
    wakeups: Wakeups
    partitions: PartitionsSubsystem
    replicas: ReplicasSubsystem
    coordinators: CoordinatorsSubsystem
    data_path: DataPathSubsystem
    share: ShareSubsystem
    #: None where nothing receives client metrics.
    client_telemetry: ClientTelemetry | None
