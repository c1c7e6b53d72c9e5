"""A broker seen by its controller only: the real lifecycle and forwarding of a second node, against a real first one.

It has no partitions and follows no metadata log: it looks at the first node's image, as if it had fetched it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import odradek
from odradek.metadata.image import MetadataImage
from odradek.server.broker import BrokerServer
from odradek.server.cluster.broker_lifecycle import BrokerLifecycle
from odradek.server.cluster.controller_channel import Forwarding
from odradek.server.network.endpoint import Endpoint
from odradek.server.peers.peers import Peers
from odradek.server.runtime.lazy import Lazy

DEADLINE_S = 30


def first_node(**config: Any) -> odradek.Broker:
    """Broker and controller in one, with a listener for others' controllers and brokers."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "broker.heartbeat.interval.ms": 100,
        **config,
    }
    return odradek.Broker(config=settings)


def controller_endpoint(server: BrokerServer) -> Endpoint:
    (found,) = [listener.endpoint for listener in server.listeners if listener.name == "CONTROLLER"]
    return found


async def until(holds: Callable[[], object], what: str = "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what or "it did not come to hold in time"
        await asyncio.sleep(0.005)


class RemoteBroker:
    """The parts of a broker that `BrokerLifecycle` and `Forwarding` use, with a listening socket of its own."""

    def __init__(self, first: BrokerServer, node_id: int) -> None:
        self.first = first
        self.node_id = node_id
        self.cluster_id = first.cluster_id
        self.config = first.config
        self.directories = [
            SimpleNamespace(directory_id=bytes(15) + b"\xff", previous_broker_epoch=-1, is_online=True, path="")
        ]
        self.directories[0].directory_id = node_id.to_bytes(2, "big") * 8
        self.controller = SimpleNamespace(
            is_active=False,
            leader_endpoint=controller_endpoint(first),
            on_leader_changed=[],
            broker_epoch=-1,
        )
        self.broker_sessions = None
        self.on_published: list[Callable[[MetadataImage], None]] = []
        self.peers = Lazy(lambda: Peers(f"odradek-{node_id}"))
        self.forwarding = Lazy(lambda: Forwarding(self))  # type: ignore[arg-type]
        self.server: asyncio.Server
        first.on_published.append(self._published)

    @classmethod
    async def start(cls, first: BrokerServer, node_id: int) -> RemoteBroker:
        self = cls(first, node_id)
        self.server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        self.lifecycle = BrokerLifecycle(self)  # type: ignore[arg-type]
        return self

    async def join(self) -> None:
        await self.lifecycle.register()
        await self.lifecycle.run()

    async def die(self) -> None:
        """As a process does: nobody listens any more, and its connections end."""
        self.server.close()
        await self.server.wait_closed()
        self.lifecycle._end()
        self.peers().close()

    async def fall_silent(self) -> None:
        """As a process that is cut off: its listener accepts."""
        self.lifecycle._end()

    def _published(self, image: MetadataImage) -> None:
        for function in self.on_published:
            function(image)

    @property
    def image(self) -> MetadataImage:
        return self.first.image

    def now_ms(self) -> int:
        return self.first.now_ms()

    def call_at(self, deadline_ms: int, function: Callable[[], object]) -> asyncio.TimerHandle:
        return self.first.call_at(deadline_ms, function)

    @property
    def metadata(self) -> Any:
        return self

    @property
    def clock(self) -> Any:
        return self

    def advertised_endpoints(self) -> list[Endpoint]:
        return [Endpoint("PLAINTEXT", *self.server.sockets[0].getsockname())]

    @property
    def registered(self) -> Any:
        return self.first.image.broker(self.node_id)
