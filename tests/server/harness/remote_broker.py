"""A second node with the real lifecycle and forwarding of a broker, against a real first node.

It has no partitions and fetches no metadata log: it uses the first node's image.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import odradek
from odradek.client.peers import Peers
from odradek.metadata.image import MetadataImage
from odradek.server.broker import BrokerServer
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.broker_lifecycle import BrokerLifecycle
from odradek.server.controller.forwarding import Forwarding
from odradek.server.controller.registration import Registration
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.storage.directory import LogDirectory
from odradek.storage.files.meta_properties import MetaProperties

DEADLINE_S = 60


def first_node(**config: Any) -> odradek.Broker:
    """Returns a node that is broker and controller, with a listener for the controllers and brokers of other nodes."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "broker.heartbeat.interval.ms": 100,
        **config,
    }
    return odradek.Broker(config=settings)


def controller_endpoint(server: BrokerServer) -> Endpoint:
    (found,) = [listener.endpoint for listener in server.network.listeners if listener.name == "CONTROLLER"]
    return found


async def until(holds: Callable[[], object], what: str | Callable[[], str] = "") -> None:
    """Waits for a condition. `what`: the message of a failure, or the function that makes it then."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        if time.monotonic() >= deadline:
            raise AssertionError((what() if callable(what) else what) or "it did not come to hold in time")
        await asyncio.sleep(0.005)


class FollowedController:
    """The part of a `QuorumDriver` that a broker uses, of a node that follows the first one's controller."""

    is_active = False
    broker_epoch = -1

    def __init__(self, first: BrokerServer, node_id: int) -> None:
        self.leader_endpoint = controller_endpoint(first)
        self.on_leader_changed: list[Callable[..., object]] = []
        self._voters = {first.node_id: self.leader_endpoint, node_id: self.leader_endpoint}

    def voter_endpoints(self) -> dict[int, Endpoint]:
        return self._voters


class RemoteBroker:
    """The parts of a broker that `BrokerLifecycle` and `Forwarding` use, with a listening socket of its own."""

    def __init__(self, first: BrokerServer, node_id: int) -> None:
        self.first = first
        self.node_id = node_id
        directory = LogDirectory(f"of node {node_id}")  # there is no such folder
        directory.meta_properties = MetaProperties("cluster", node_id, node_id.to_bytes(2, "big") * 8)
        self.directories = [directory]
        self.controller: Any = FollowedController(first, node_id)
        self.metadata = MetadataCache()
        self.metadata.image = first.node.metadata.image
        self.peers = Lazy(lambda: Peers(f"odradek-{node_id}"))
        self.forwarding = Lazy(lambda: Forwarding(self.controller, self.peers, first.node.clock))
        self.server: asyncio.Server
        self.lifecycle: BrokerLifecycle
        first.node.metadata.on_published.append(self._published)

    @classmethod
    async def start(cls, first: BrokerServer, node_id: int) -> RemoteBroker:
        self = cls(first, node_id)
        self.server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        registration = Registration(node_id, first.node.identity.cluster_id, first.config, self, self.directories)
        self.lifecycle = BrokerLifecycle(
            replace(first.node, metadata=self.metadata), self.controller, registration, self.forwarding, None
        )
        return self

    async def join(self) -> None:
        await self.lifecycle.register()
        await self.lifecycle.run()

    async def die(self) -> None:
        """Ends like a process: closes its listener and its connections."""
        self.server.close()
        await self.server.wait_closed()
        self.lifecycle._end()
        self.peers().close()

    async def fall_silent(self) -> None:
        """Stops its heartbeats, like a process that is cut off. Its listener still accepts."""
        self.lifecycle._end()

    def _published(self, image: MetadataImage) -> None:
        self.metadata.image = image
        for function in self.metadata.on_published:
            function(image)

    def advertised_endpoints(self) -> list[Endpoint]:
        return [Endpoint("PLAINTEXT", *self.server.sockets[0].getsockname())]

    def controller_endpoints(self) -> list[Endpoint]:
        return []

    @property
    def registered(self) -> Any:
        return self.first.node.metadata.image.broker(self.node_id)
