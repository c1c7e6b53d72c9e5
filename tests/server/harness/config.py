"""The parts of a broker that configurations use: the real controller, image, broker configuration and handlers.

There is no disk and no socket. Decisions of the controller are published at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode, encode
from odradek.protocol.internal.cluster_metadata import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from odradek.protocol.schema import Message
from odradek.replication.controller.controller import Controller
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.endpoints import endpoint_of

from tests.server.harness.handler_services import HandlerServices
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection

_METADATA_VERSION = 30


class ConfigHarness:
    """Handles requests by `call(request, version)`. Every request and response passes through the codec."""

    def __init__(self, properties: Mapping[str, str] | None = None, topics: tuple[str, ...] = ()) -> None:
        self.config = BrokerConfig(properties)
        self.node_id = self.config.node_id
        self.image: MetadataImage = EMPTY_IMAGE
        self._services = HandlerServices(self.config, driver=self)
        self._calls = NotedCalls(NotedConnection(self._services.node))
        self._controller = Controller(self.node_id, "cluster", self.config.values.static, random.Random(1))
        self._publish([FeatureLevelRecord(name="metadata.version", feature_level=_METADATA_VERSION)])
        self._publish([RegisterBrokerRecord(broker_id=self.node_id, fenced=False)])
        for number, name in enumerate(topics, 1):
            topic_id = number.to_bytes(16, "big")
            partition = PartitionRecord(
                partition_id=0, topic_id=topic_id, replicas=[self.node_id], isr=[self.node_id], leader=self.node_id
            )
            self._publish([TopicRecord(name=name, topic_id=topic_id), partition])

    def call(self, request: Message, version: int) -> Any:
        key = type(request).SCHEMA.key
        assert key is not None
        api = APIS[key]
        received, _ = decode(api.request, version, encode(request, version))
        self._services.metadata.image = self.image
        self._calls.responses.clear()
        handled = endpoint_of(api).handle(self._services, self._calls.call(received, version, "test"))
        (response,) = [handled] if handled is not None else self._calls.responses
        return decode(api.response, version, encode(response, version))[0]

    def submit(self, request: Message, version: int, reply: Callable[[Message], None], **client: Any) -> None:
        result = self._controller.handle(request, version)
        self._publish(list(result.records))
        reply(result.response)

    def _publish(self, records: list[Message]) -> None:
        offset = self._controller.next_offset + len(records) - 1
        self._controller.replay(records, 1, 0)
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(offset, 1, 0)
        self.config.apply(delta, self.image)
