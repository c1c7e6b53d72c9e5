"""Requests in portions: no item is lost, doubled or reordered, and repeated items follow the rules of their API."""

from __future__ import annotations

from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.server.endpoints import create_topics, describe_configs, join_group, list_offsets, metadata, offset_commit
from odradek.server.endpoints import offset_fetch as offset_fetch_api
from odradek.server.network.api_endpoint import DEFAULT_ITEM_LIMIT, MAX_REQUEST_ITEMS
from odradek.server.network.portioned_call import has_more_than
from odradek.server.network.portions import Merged, Portion, portions

from compat_tests.wire import WireClient

OFFSET_FETCH = offset_fetch_api.ENDPOINT.portionings[0]


def cut(request: Any, portioning: Any, size: int) -> list[Portion]:
    return [portion for portion in portions(request, portioning, lambda: size) if portion is not None]


def offset_fetch() -> OffsetFetchRequest:
    groups = [
        OffsetFetchRequestGroup("a", topics=[OffsetFetchRequestTopics("x", partition_indexes=[0, 1, 2, 3, 4])]),
        OffsetFetchRequestGroup("all", topics=None),
        OffsetFetchRequestGroup("none", topics=[]),
        OffsetFetchRequestGroup(
            "b",
            topics=[
                OffsetFetchRequestTopics("x", partition_indexes=[7]),
                OffsetFetchRequestTopics("empty", partition_indexes=[]),
                OffsetFetchRequestTopics("y", partition_indexes=[1, 2]),
            ],
        ),
    ]
    return OffsetFetchRequest(groups=groups)


def echoed(request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Returns a response with the items of the request. For None as topics, it has a topic "every"."""
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group.group_id,
                [
                    OffsetFetchResponseTopics(
                        topic.name,
                        partitions=[OffsetFetchResponsePartitions(index) for index in topic.partition_indexes],
                    )
                    for topic in (group.topics if group.topics is not None else [OffsetFetchRequestTopics("every")])
                ],
            )
            for group in request.groups
        ]
    )


@pytest.mark.parametrize("size", range(1, 12))
def test_responses_of_portions_make_the_response_of_the_whole(size: int) -> None:
    merged = Merged(OFFSET_FETCH.answered)
    for portion in cut(offset_fetch(), OFFSET_FETCH, size):
        merged.add(echoed(portion.request), portion)
    assert merged.response == echoed(offset_fetch())


def test_request_stays_as_it_is() -> None:
    request = offset_fetch()
    cut(request, OFFSET_FETCH, 3)
    assert request == offset_fetch()


def test_portions_have_as_many_items_as_they_may() -> None:
    assert [portion.items for portion in cut(offset_fetch(), OFFSET_FETCH, 4)] == [4, 4, 3]


def test_items_are_counted_no_farther_than_needed() -> None:
    request = offset_fetch()
    assert has_more_than(request, OFFSET_FETCH.asked, 5)
    assert not has_more_than(request, OFFSET_FETCH.asked, 50)


def test_repeated_resource_is_described_once() -> None:
    resources = [DescribeConfigsResource(4, name) for name in ("1", "1", "2", "1", "2")]
    found = cut(DescribeConfigsRequest(resources=resources), describe_configs.ENDPOINT.portionings[0], 1)
    assert [[one.resource_name for one in portion.request.resources] for portion in found] == [["1"], ["2"]]


def test_partition_that_kafka_refuses_when_repeated_is_handed_on_twice_in_one_portion() -> None:
    partitions = [ListOffsetsPartition(index) for index in (0, 1, 0, 2, 0)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", partitions), ListOffsetsTopic("u", partitions[1:2])])
    found = cut(request, list_offsets.ENDPOINT.portionings[0], 1)
    assert [[p.partition_index for t in portion.request.topics for p in t.partitions] for portion in found] == [
        [0, 0],
        [1],
        [2],
        [1],
    ]


@pytest.mark.usefixtures("sockets")
def test_request_that_the_controller_refuses_as_a_whole_is_not_cut() -> None:
    topics = [CreatableTopic(f"t{number}", 1000, 1) for number in range(11)]
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        response = client.call(CreateTopicsRequest(topics, validate_only=True), 7)
        assert {topic.error_code for topic in response.topics} == {ErrorCode.POLICY_VIOLATION}
        response = client.call(CreateTopicsRequest(topics[:9], validate_only=True), 7)
        assert [topic.error_code for topic in response.topics] == [0] * 9


def test_every_api_has_a_limit() -> None:
    assert metadata.ENDPOINT.item_limit == offset_commit.ENDPOINT.item_limit == MAX_REQUEST_ITEMS
    assert DEFAULT_ITEM_LIMIT < offset_fetch_api.ENDPOINT.item_limit < MAX_REQUEST_ITEMS
    assert join_group.ENDPOINT.item_limit == DEFAULT_ITEM_LIMIT
    assert create_topics.ENDPOINT.item_limit < MAX_REQUEST_ITEMS
