"""Makes the part that takes clients' metrics, where something receives them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from ...metadata.configs import InvalidConfig

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..node import Node
    from ..telemetry import ClientTelemetry

_ENDPOINT_KEY = "odradek.telemetry.otlp.endpoint"
#: The library that reads pushes; finding it does not import it.
_LIBRARY = "opentelemetry.proto.metrics.v1"


def is_on(config: BrokerConfig) -> bool:
    """Returns True if something receives client metrics, a scraper or a collector, and the library for OTLP is there.

    Raises InvalidConfig for a collector without the library.
    """
    has_collector = config.get(_ENDPOINT_KEY) is not None
    if not has_collector and config.get("odradek.metrics.port") is None:
        return False
    if _has_library():
        return True
    if has_collector:
        raise InvalidConfig(f"{_ENDPOINT_KEY} needs a library: pip install 'odradek[telemetry]'")
    return False


def _has_library() -> bool:
    try:
        return find_spec(_LIBRARY) is not None
    except ModuleNotFoundError:
        return False


def client_telemetry(node: Node) -> ClientTelemetry:
    """Raises InvalidConfig."""
    from ..telemetry import ClientTelemetry, Collector

    url: str | None = node.config.get(_ENDPOINT_KEY)
    collector = None if url is None else Collector(url, node.lines)
    made = ClientTelemetry(node.config, node.clock, node.lines, node.pools.cpu, collector)
    node.listeners.on_connection_lost.append(made.disconnected)
    return made
