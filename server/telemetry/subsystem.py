"""Metrics that clients push (KIP-714), as one subsystem; without a receiver of them it is empty, and imports nothing."""

from __future__ import annotations

from collections.abc import Iterable, Set
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ...extras import install_command
from ...metadata.configs import InvalidConfig
from ..runtime.subsystem import Subsystem

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ..config.broker_config import BrokerConfig
    from ..network.subsystem import NetworkSubsystem
    from ..runtime.node import Node
    from .client_telemetry import ClientTelemetry

_ENDPOINT_KEY: Final = "odradek.telemetry.otlp.endpoint"
#: The library that reads pushes; finding it does not import it.
_LIBRARY = "opentelemetry.proto.metrics.v1"


class TelemetrySubsystem(Subsystem):
    """The metrics that clients push to this broker. Raises InvalidConfig."""

    name = "client telemetry"

    def __init__(self, node: Node, network: NetworkSubsystem) -> None:
        config, lines = node.config, node.lines
        #: None where nothing receives client metrics.
        self.clients: ClientTelemetry | None = None
        if not is_on(config):
            return
        from .client_telemetry import ClientTelemetry
        from .export import Collector

        url = config.get(_ENDPOINT_KEY)
        collector = None if url is None else Collector(url, lines)
        self.clients = ClientTelemetry(config, node.clock, lines, node.pools.cpu, collector)
        network.listeners.on_connection_lost.append(self.clients.disconnected)
        self.interest: Set[Part] = frozenset({"configs"})

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Follows the subscriptions of a new image."""
        if self.clients is not None:
            self.clients.follow(delta.configs, image)
        return ()

    async def stop(self) -> None:
        if self.clients is not None:
            await self.clients.stop()


def is_on(config: BrokerConfig) -> bool:
    """Returns True if something receives client metrics, a scraper or a collector, and the library for OTLP is there.

    Raises InvalidConfig for a collector without the library.
    """
    if not config.is_broker:
        return False
    has_collector = config.get(_ENDPOINT_KEY) is not None
    if not has_collector and config.get("odradek.metrics.port") is None:
        return False
    if _has_library():
        return True
    if has_collector:
        raise InvalidConfig(f"{_ENDPOINT_KEY} needs a library: {install_command('telemetry')}")
    return False


def _has_library() -> bool:
    try:
        return find_spec(_LIBRARY) is not None
    except ModuleNotFoundError:
        return False
