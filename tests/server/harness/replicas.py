"""Brokers in one event loop that replicate from each other. The test publishes the cluster's metadata.

Each broker is a single node whose own controller is unused. The test's records go to all brokers, as if one controller had
written them. The harness decides AlterPartition requests while `decides` is set.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek import Broker
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import BROKER_RESOURCE, BrokerImage, PartitionImage
from odradek.protocol.internal.cluster_metadata import (
    BrokerEndpoint,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.schema import Message
from odradek.server.broker import BrokerServer
from odradek.server.controller.forwarding import Forwarding
from odradek.server.partitions.append_result import AppendResult
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.publisher import Publisher

from tests.server.harness.data_path import batch_of

DEADLINE_S = 60
TOPIC = "orders"
TOPIC_ID = bytes(range(16))


async def eventually(holds: Callable[[], object], what: str = "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what or "it did not come to hold in time"
        await asyncio.sleep(0.005)


class Replicas:
    """`async with Replicas(tmp_path, 3) as replicas`: brokers 1, 2 and 3."""

    def __init__(
        self, path: Path, count: int, *, first: int = 1, each: dict[int, dict[str, str]] | None = None, **config: str
    ) -> None:
        """`first`: the lowest node id. `each`: configuration of single brokers, in addition to that of all."""
        own = each or {}
        self._brokers = {
            number: Broker(
                data_dir=path / str(number), config={"node.id": str(number), **config, **own.get(number, {})}
            )
            for number in range(first, first + count)
        }
        self.decides = True
        self.asked: list[AlterPartitionRequestPartition] = []

    async def __aenter__(self) -> Replicas:
        for number, broker in self._brokers.items():
            await broker.start()
            self.server(number).controller.forwarding.made = _ToTheHarness(self, self.server(number))
        self.publish(*(self._registration(number) for number in self._brokers))
        return self

    async def __aexit__(self, *exception: object) -> None:
        for number in list(self._brokers):
            await self.stop(number)

    async def stop(self, number: int) -> None:
        await self._brokers.pop(number).stop()

    async def stop_following(self, number: int) -> None:
        """Stops a broker's fetchers. Returns when none of its fetches is in flight."""
        replication = self.server(number).replicas.replication()
        replication.close()
        await eventually(lambda: not any(fetcher.is_waiting for fetcher in replication._fetchers.values()))

    def follow_again(self, number: int) -> None:
        self.server(number).replicas.replication.made = None
        self.server(number).replicas.replication().follow(self.hosted(number))

    def server(self, number: int) -> BrokerServer:
        return self._brokers[number].server

    def _registration(self, number: int) -> RegisterBrokerRecord:
        server = self.server(number)
        (endpoint,) = server.network.listeners.advertised_endpoints()
        return RegisterBrokerRecord(
            broker_id=number,
            incarnation_id=bytes([number]) * 16,
            broker_epoch=server.controller.driver.broker_epoch,
            end_points=[BrokerEndpoint(endpoint.name, endpoint.host, endpoint.port, 0)],
            rack=server.config.get("broker.rack"),
            fenced=False,
        )

    # ---- records of the controller

    def publish(self, *records: Message) -> None:
        for number in self._brokers:
            self.publish_to(number, *records)

    def publish_to(self, number: int, *records: Message) -> None:
        server = self.server(number)
        delta = MetadataDelta(server.node.metadata.image)
        for record in records:
            delta.replay(record)
        Publisher(server.config, server.node.metadata, server.subsystems).publish(
            delta, delta.apply(server.node.metadata.image.offset, server.node.metadata.image.epoch, 0)
        )

    def create(self, *replicas: int, isr: tuple[int, ...] | None = None, **configs: str) -> None:
        """Publishes the topic with one partition, led by the first replica."""
        self.publish(
            TopicRecord(TOPIC, TOPIC_ID),
            *(ConfigRecord(2, TOPIC, key.replace("_", "."), value) for key, value in configs.items()),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=list(replicas),
                isr=list(isr or replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)] * len(replicas),
            ),
        )

    def change(self, *, only: int | None = None, **fields: Any) -> None:
        """Publishes a change of the partition. `only`: the one broker that gets it."""
        record = PartitionChangeRecord(0, TOPIC_ID, **fields)
        if only is None:
            self.publish(record)
        else:
            self.publish_to(only, record)

    def throttle(self, key: str, rate: str | None) -> None:
        """Sets a throttle of all brokers."""
        self.publish(ConfigRecord(BROKER_RESOURCE, "", key, rate))

    def unregister(self, number: int) -> None:
        self.publish(UnregisterBrokerRecord(number, 0))

    def partition(self, number: int) -> PartitionImage:
        found = self.server(number).node.metadata.image.partition(TOPIC, 0)
        assert found is not None
        return found

    def broker_image(self, number: int) -> BrokerImage:
        found = self.server(number).node.metadata.image.broker(number)
        assert found is not None
        return found

    # ---- state of the replicas

    def hosted(self, number: int) -> HostedPartition:
        found = self.server(number).partitions.hosted.get((TOPIC, 0))
        assert found is not None
        return found

    def produce(self, number: int, *values: bytes, acks: int = 1, **options: Any) -> AppendResult:
        now_ms = self.server(number).node.clock.now_ms()
        return self.hosted(number).append(batch_of(*values, **options), now_ms, required_acks=acks)

    async def fetch(self, number: int, offset: int = 0, *, version: int = 13, rack_id: str = "") -> PartitionData:
        """Returns a broker's response to a consumer's Fetch over its socket."""
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        name = {"topic": TOPIC} if version < 13 else {"topic_id": TOPIC_ID}
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, rack_id=rack_id, topics=[FetchTopic(**name, partitions=[asked])]
        )
        response: FetchResponse = await self.ask(number, request, version)
        return response.responses[0].partitions[0]

    async def send(
        self, number: int, version: int = 13, *, acks: int = 1, timeout_ms: int = DEADLINE_S * 1000
    ) -> ProduceResponse:
        """Returns a broker's response to a Produce of one record over its socket."""
        name = {"name": TOPIC} if version < 13 else {"topic_id": TOPIC_ID}
        data = TopicProduceData(**name, partition_data=[PartitionProduceData(0, batch_of(b"v"))])
        response: ProduceResponse = await self.ask(number, ProduceRequest(None, acks, timeout_ms, [data]), version)
        return response

    async def ask(self, number: int, request: Message, version: int) -> Any:
        (endpoint,) = self.server(number).network.listeners.advertised_endpoints()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reply(response: Any) -> None:
            if isinstance(response, FetchResponse):
                data = response.responses[0].partitions[0]
                data.records = bytes(data.records or b"")  # the views are valid until this returns
            future.set_result(response)

        asker = self.server(next(iter(self._brokers)))
        asker.network.peers().send(
            endpoint, request, reply, timeout_ms=DEADLINE_S * 1000, version=version, purpose="client"
        )
        return await future

    def bytes_of(self, number: int) -> bytes:
        """Returns all bytes of the replica's log, as they are in its files."""
        log = self.hosted(number).log
        return b"".join(Path(segment.path).read_bytes()[: segment.size] for segment in log.segments)

    async def equal(self, *numbers: int) -> None:
        """Waits until the replicas have the same bytes and the same high watermark."""
        first, *others = numbers
        for other in others:
            await eventually(
                lambda other=other: (
                    self.hosted(other).log_end_offset == self.hosted(first).log_end_offset
                    and self.hosted(other).high_watermark == self.hosted(first).high_watermark
                ),
                f"{self.hosted(first)} and {self.hosted(other)}",
            )
            assert self.bytes_of(other) == self.bytes_of(first)
            assert self.hosted(other).log.epochs.entries() == self.hosted(first).log.epochs.entries()


class _ToTheHarness(Forwarding):
    """Passes a broker's AlterPartition to the harness, which decides it."""

    def __init__(self, replicas: Replicas, server: BrokerServer) -> None:
        super().__init__(server.controller.driver, server.network.peers, server.node.clock)
        self._replicas = replicas

    def send_to_controller(self, request: Message, reply: Callable[[Any], None], **options: Any) -> None:
        assert isinstance(request, AlterPartitionRequest)
        asyncio.get_running_loop().call_soon(self._decide, request, reply)

    def _decide(self, request: AlterPartitionRequest, reply: Callable[[Any], None]) -> None:
        (topic,) = request.topics
        (asked,) = topic.partitions
        replicas = self._replicas
        replicas.asked.append(asked)
        if not replicas.decides:
            reply(None)
            return
        before = replicas.partition(request.broker_id)
        assert (asked.leader_epoch, asked.partition_epoch) == (before.leader_epoch, before.partition_epoch)
        isr = [state.broker_id for state in asked.new_isr_with_epochs]
        replicas.publish(PartitionChangeRecord(0, TOPIC_ID, isr=isr))
        after = replicas.partition(request.broker_id)
        response = AlterPartitionResponsePartition(
            0, 0, after.leader, after.leader_epoch, isr, 0, after.partition_epoch
        )
        reply(AlterPartitionResponse(topics=[AlterPartitionResponseTopic(topic.topic_id, [response])]))
