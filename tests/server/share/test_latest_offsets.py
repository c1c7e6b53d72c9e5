"""Latest offsets of partitions, requested from their leaders."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import BrokerEndpoint, PartitionChangeRecord
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.server.controller.leaders import Leaders
from odradek.server.runtime.lazy import Lazy
from odradek.server.share.latest_offsets import End, Ends, LatestOffsets

from tests.server.harness.hosted import NOW_MS, Hosted, batch
from tests.server.harness.images import broker_record, cache_of, image_with, topic_id_of, topic_records
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.noted_peers import NotedPeers

OWN, OTHER = 0, 2
HERE, THERE, LEADERLESS = ("t", 0), ("t", 1), ("t", 2)


def ends(path: Path, response: ListOffsetsResponse | None) -> Ends:
    """Returns the ends of three partitions: one led here, one by another broker with this response, one without a
    leader.
    """
    hosted = Hosted(path, OWN, topic="t")
    hosted.lead()
    hosted.append(batch(11), NOW_MS)
    image = image_with(
        broker_record(OTHER, end_points=[BrokerEndpoint("P", "b2", 1, 0)]),
        *topic_records("t", (OWN,), (OTHER,), (OTHER,)),
        PartitionChangeRecord(2, topic_id_of("t"), leader=-1),
    )
    partitions, peers = NotedPartitions([hosted]), NotedPeers()
    leaders = Leaders(cache_of(image), partitions, inter_broker_listener="P", node_id=OWN)
    looked_up: list[Ends] = []
    LatestOffsets(partitions, leaders, Lazy(lambda: peers)).look_up([HERE, THERE, LEADERLESS], looked_up.append)
    [(endpoint, request, reply, _, _)] = peers.sent
    assert endpoint.host == "b2" and isinstance(request, ListOffsetsRequest) and looked_up == []
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in request.topics] == [("t", [1])]
    reply(response)
    [ends] = looked_up
    return ends


def says(error: ErrorCode, offset: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(1, error, -1, offset)])]
    )


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (says(ErrorCode.NONE, 22), End(ErrorCode.NONE, 22)),
        (says(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), End(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        (None, End(ErrorCode.NETWORK_EXCEPTION)),
    ],
)
def test_each_leader_is_queried_and_a_missing_answer_is_an_error(
    response: ListOffsetsResponse | None, expected: End, tmp_path: Path
) -> None:
    assert ends(tmp_path, response) == {
        HERE: End(ErrorCode.NONE, 11),
        THERE: expected,
        LEADERLESS: End(ErrorCode.LEADER_NOT_AVAILABLE),
    }
