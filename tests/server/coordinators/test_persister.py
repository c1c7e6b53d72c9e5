"""Requests to the persister for no share partition, one, and several: one response each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.protocol.internal.cluster_metadata import TopicRecord
from odradek.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStatePartitionResult,
    ReadStateResult,
)
from odradek.protocol.messages.share_state_reads import ReadStateData, ReadStatePartition
from odradek.server.coordinators.persister_requests import Persister

from tests.server.harness.images import cache_of, image_with
from tests.server.harness.scripted_network import Network


class EveryShard:
    """A shard whose responses have the index of each share partition as its start offset."""

    topic = "__share_group_state"

    def partition_for(self, key: str) -> int:
        return 0

    def submit(self, key: str, request: Any, version: int, client: Any, reply: Callable[[Any], None]) -> None:
        (topic,) = request.topics
        (partition,) = topic.partitions
        found = ReadStatePartitionResult(partition=partition.partition, start_offset=partition.partition)
        reply(ReadShareGroupStateResponse(results=[ReadStateResult(topic.topic_id, [found])]))


def asked(*topics: list[int]) -> list[list[int]]:
    metadata = cache_of(image_with(TopicRecord(EveryShard.topic, b"s" * 16)))
    leaders: Any = Network(0)
    shards: Any = EveryShard
    peers: Any = None  # every shard is on this broker
    request = ReadShareGroupStateRequest(
        group_id="group",
        topics=[
            ReadStateData(bytes([number]) * 16, [ReadStatePartition(partition=index) for index in indexes])
            for number, indexes in enumerate(topics)
        ],
    )
    responses: list[Any] = []
    Persister(shards, metadata, leaders, peers).ask(request, responses.append)
    (response,) = responses
    return [[found.start_offset for found in result.partitions] for result in response.results]


def test_persister_request_to_several_shards_has_one_response() -> None:
    assert asked() == []
    assert asked([3]) == [[3]]
    assert asked([3, 1], [2]) == [[3, 1], [2]]
