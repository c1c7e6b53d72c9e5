"""The record of a node's parts: the composition root fills it, and `assembly` makes each part from others of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from .runtime.halting import decide

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..client.peers import Peers
    from ..metadata.delta import MetadataDelta
    from ..metadata.image import MetadataImage
    from ..storage.directory import LogDirectory
    from .access.subsystem import AccessSubsystem
    from .config.broker_config import BrokerConfig
    from .controller.subsystem import ControllerSubsystem
    from .coordinators.subsystem import CoordinatorsSubsystem
    from .endpoints import NodeEndpoints
    from .network.call import ListenerKind
    from .network.dispatch import Dispatcher
    from .network.listener_set import ListenerSet
    from .observability.http import MetricsServer
    from .partitions.subsystem import PartitionsSubsystem
    from .produce.subsystem import DataPathSubsystem
    from .replicas.subsystem import ReplicasSubsystem
    from .runtime.background import BackgroundTasks
    from .runtime.clock import Clock
    from .runtime.counters import DamageCounters, Metrics
    from .runtime.late_imports import LateImports
    from .runtime.lazy import Lazy
    from .runtime.log_lines import RepeatedLines
    from .runtime.metadata_cache import MetadataCache
    from .runtime.thread_pools import ThreadPools
    from .runtime.turn_budget import TurnWatch
    from .runtime.turns import Turns
    from .runtime.waiters import Deadlines, Wakeups
    from .services import NodeServices
    from .share.subsystem import ShareSubsystem
    from .telemetry import ClientTelemetry


class Subsystem(Protocol):
    """A subsystem of the node, whose parts are its own."""

    name: str

    async def start(self) -> None:
        """Starts it; the subsystems before it in the list of the root have started."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Follows a new image, in steps."""

    async def stop(self) -> None:
        """Stops what the start has made, however far it came."""


class Node:
    """The parts of a node, in the order in which they are made."""

    config: BrokerConfig
    node_id: int
    clock: Clock
    metadata: MetadataCache
    lines: RepeatedLines
    pools: ThreadPools
    metrics: Metrics
    damage: DamageCounters
    #: Failures of background work.
    background: BackgroundTasks
    turn_watch: TurnWatch
    turns: Turns
    late_imports: LateImports
    #: The APIs that the node serves.
    endpoints: NodeEndpoints
    dispatchers: dict[ListenerKind, Dispatcher]
    listeners: ListenerSet
    directories: list[LogDirectory]
    access: AccessSubsystem
    #: Requests to other nodes.
    peers: Lazy[Peers]

    # Made by the start.
    #: Subsystems, in the order of their start: each follows images, and stops in the reverse order.
    subsystems: list[Subsystem]
    cluster_id: str
    #: The failure because of which the node cannot continue.
    failed: asyncio.Future[Exception]
    deadlines: Deadlines
    wakeups: Wakeups
    # On a node that is only a controller there are no partitions, and none of what lives in them.
    partitions: PartitionsSubsystem
    replicas: ReplicasSubsystem
    coordinators: CoordinatorsSubsystem
    data_path: DataPathSubsystem
    share: ShareSubsystem
    controller: ControllerSubsystem
    #: The dependencies of the handlers; None until they are made.
    services: NodeServices | None
    #: None unless odradek.metrics.port is set.
    metrics_server: MetricsServer | None
    #: None where nothing receives client metrics.
    client_telemetry: ClientTelemetry | None

    def halt(self, failure: Exception) -> bool:
        """The only way to end a node that runs; whether that failure is one to halt for, see halting.py."""
        if self.failed.done():
            return True
        cause = decide(failure)
        if cause is not None:
            self.failed.set_result(failure)
        return cause is not None
