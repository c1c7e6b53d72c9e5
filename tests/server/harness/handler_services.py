"""The parts of a node that handlers use: real ones, and a controller and other brokers that are the test."""

from __future__ import annotations

from typing import Any

from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.server.access.subsystem import AccessSubsystem
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.lazy import Lazy

from tests.server.harness.images import cache_of
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_peers import NotedPeers


class ControllerPart:
    """The part of `ControllerSubsystem` that handlers use."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver


class NetworkPart:
    """The part of `NetworkSubsystem` that handlers use."""

    def __init__(self) -> None:
        self.peers = Lazy(NotedPeers)


class HandlerServices:
    """`driver`: the driver of the controller, or the part of it that the handler uses."""

    def __init__(
        self,
        config: BrokerConfig | dict[str, str] | None = None,
        *,
        image: MetadataImage = EMPTY_IMAGE,
        driver: Any = None,
    ) -> None:
        self.node = node_of(config, metadata=cache_of(image))
        self.config = self.node.config
        self.node_id = self.config.node_id
        self.metadata = self.node.metadata
        self.access = AccessSubsystem(self.node)
        self.controller = ControllerPart(driver)
        self.network = NetworkPart()
