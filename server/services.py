"""The parts of a node that handlers may use: nothing else is in their reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ..storage.directory import LogDirectory
    from .access.subsystem import AccessSubsystem
    from .config.broker_config import BrokerConfig
    from .controller.subsystem import ControllerSubsystem
    from .coordinators.subsystem import CoordinatorsSubsystem
    from .data_path.subsystem import DataPathSubsystem
    from .network.subsystem import NetworkSubsystem
    from .partitions.subsystem import PartitionsSubsystem
    from .replicas.subsystem import ReplicasSubsystem
    from .runtime.clock import Clock
    from .runtime.counters import BackgroundTasks, DamageCounters, Metrics
    from .runtime.sliced_work import TurnWatch
    from .runtime.subsystem import MetadataCache
    from .runtime.thread_pools import ThreadPools
    from .share.subsystem import ShareSubsystem
    from .telemetry.subsystem import TelemetrySubsystem

    #: The fields of `NodeServices`, in order.
    CommonServices: TypeAlias = tuple[
        BrokerConfig,
        int,
        str,
        Clock,
        MetadataCache,
        ThreadPools,
        Metrics,
        TurnWatch,
        DamageCounters,
        BackgroundTasks,
        list[LogDirectory],
        AccessSubsystem,
        NetworkSubsystem,
        ControllerSubsystem,
    ]


@dataclass(slots=True)
class NodeServices:
    """The parts of every node: all that a handler on a controller listener may use."""

    config: BrokerConfig
    node_id: int
    cluster_id: str
    clock: Clock
    metadata: MetadataCache
    pools: ThreadPools
    metrics: Metrics
    turn_watch: TurnWatch
    damage: DamageCounters
    background: BackgroundTasks
    directories: list[LogDirectory]
    access: AccessSubsystem
    network: NetworkSubsystem
    controller: ControllerSubsystem


@dataclass(slots=True)
class Services(NodeServices):
    """The parts of a broker."""

    partitions: PartitionsSubsystem
    replicas: ReplicasSubsystem
    coordinators: CoordinatorsSubsystem
    data_path: DataPathSubsystem
    share: ShareSubsystem
    telemetry: TelemetrySubsystem
