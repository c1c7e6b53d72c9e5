"""Latest offsets of partitions, requested from their leaders."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.server.runtime.lazy import Lazy
from odradek.server.share.latest_offsets import End, Ends, LatestOffsets

HERE, THERE, LEADERLESS = ("t", 0), ("t", 1), ("t", 2)


def ends(response: Callable[[ListOffsetsRequest], ListOffsetsResponse | None]) -> Ends:
    """Returns the ends of three partitions: one led here, one by another broker with this response, one without a
    leader.
    """

    def send(endpoint: str, request: ListOffsetsRequest, reply: Callable[[Any], None], **_: object) -> None:
        assert endpoint == "b2"
        assert [(t.name, [p.partition_index for p in t.partitions]) for t in request.topics] == [("t", [1])]
        reply(response(request))

    partitions: Any = {HERE: SimpleNamespace(is_leader=True, high_watermark=11)}
    leaders: Any = SimpleNamespace(other_leader=lambda *partition: "b2" if partition == THERE else None)
    peers: Any = Lazy(lambda: SimpleNamespace(send=send))
    found: list[Ends] = []
    LatestOffsets(partitions, leaders, peers).look_up([HERE, THERE, LEADERLESS], found.append)
    (one,) = found
    return one


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
    response: ListOffsetsResponse | None, expected: End
) -> None:
    assert ends(lambda _: response) == {
        HERE: End(ErrorCode.NONE, 11),
        THERE: expected,
        LEADERLESS: End(ErrorCode.LEADER_NOT_AVAILABLE),
    }
