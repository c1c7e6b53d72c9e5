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
    from .controller.auto_creation import AutoCreation
    from .controller.broker_lifecycle import BrokerLifecycle
    from .controller.broker_sessions import BrokerSessionWatch
    from .controller.driver import QuorumDriver
    from .controller.producer_ids import ProducerIds
    from .controller.stopped_brokers import StoppedBrokers
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
    controller: QuorumDriver
    #: The sessions of brokers; None on a node that is no controller for others.
    broker_sessions: BrokerSessionWatch | None
    access: AccessSubsystem


@dataclass(slots=True)
class Services(NodeServices):
    """The parts of a broker."""

    deadlines: Deadlines
    wakeups: Wakeups
    auto_creation: Lazy[AutoCreation]
    producer_ids: Lazy[ProducerIds]
    partitions: PartitionsSubsystem
    replicas: ReplicasSubsystem
    coordinators: CoordinatorsSubsystem
    data_path: DataPathSubsystem
    share: ShareSubsystem
    #: This broker's registration with the controllers; None on a node that is alone.
    lifecycle: BrokerLifecycle | None
    #: None where nothing receives client metrics.
    client_telemetry: ClientTelemetry | None
    #: Brokers that have just gone; None where there are no others.
    stopped_brokers: StoppedBrokers | None
