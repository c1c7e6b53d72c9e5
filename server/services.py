"""The parts of a node that handlers may use: nothing else is in their reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.directory import LogDirectory
    from .access.subsystem import AccessSubsystem
    from .config.broker_config import BrokerConfig
    from .controller.subsystem import ControllerSubsystem
    from .coordinators.subsystem import CoordinatorsSubsystem
    from .fetch.subsystem import FetchSubsystem
    from .mirror.start import MirrorSubsystem
    from .network.subsystem import NetworkSubsystem
    from .partitions.subsystem import PartitionsSubsystem
    from .produce.subsystem import ProduceSubsystem
    from .replicas.subsystem import ReplicasSubsystem
    from .runtime.clock import Clock
    from .runtime.metadata_cache import MetadataCache
    from .runtime.node import Node
    from .share.subsystem import ShareSubsystem
    from .telemetry.subsystem import TelemetrySubsystem


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """The parts of every node: all that a handler on a controller listener may use."""

    node: Node
    access: AccessSubsystem
    network: NetworkSubsystem
    controller: ControllerSubsystem

    @property
    def config(self) -> BrokerConfig:
        return self.node.config

    @property
    def node_id(self) -> int:
        return self.node.identity.node_id

    @property
    def cluster_id(self) -> str:
        return self.node.identity.cluster_id

    @property
    def clock(self) -> Clock:
        return self.node.clock

    @property
    def metadata(self) -> MetadataCache:
        return self.node.metadata

    @property
    def directories(self) -> list[LogDirectory]:
        return self.node.directories


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(NodeServices):
    """The parts of a broker."""

    partitions: PartitionsSubsystem
    replicas: ReplicasSubsystem
    coordinators: CoordinatorsSubsystem
    produce: ProduceSubsystem
    fetch: FetchSubsystem
    share: ShareSubsystem
    telemetry: TelemetrySubsystem
    mirror: MirrorSubsystem
