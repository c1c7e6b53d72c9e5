"""Requests that tests send beside attacks; each must succeed."""

from __future__ import annotations

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from compat_tests.wire import WireClient
from tests.server.harness.data_path import batch_of


def create(client: WireClient, topic: str, *, partitions: int = 1, replicas: int = 1) -> None:
    made = CreatableTopic(topic, partitions, replicas)
    (result,) = client.call(CreateTopicsRequest(topics=[made], timeout_ms=30_000), 7).topics
    assert result.error_code == 0, result


def produce_request(topic: str, value: bytes) -> ProduceRequest:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch_of(value))])]
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)


def produce(client: WireClient, topic: str, value: bytes) -> None:
    (response,) = client.call(produce_request(topic, value), 9).responses
    assert response.partition_responses[0].error_code == 0, response
