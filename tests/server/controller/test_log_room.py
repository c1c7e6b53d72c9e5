"""The room on the disk of the metadata log: which decisions are refused, to the byte."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import TopicRecord
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.replication.controller.result import ControllerResult
from odradek.server.controller import log_room
from odradek.server.controller.controller_request import Asked
from odradek.server.controller.log_room import PLENTY_BYTES, LogRoom
from odradek.server.runtime.log_lines import RepeatedLines

RESERVE = 1000
#: At most, with four bytes for each character of the name and each byte of the id.
RECORD_BYTES = 256 + 4 * (len("orders") + 16)


@pytest.mark.parametrize(
    ("free", "reserve", "records", "is_admitted"),
    [
        (RESERVE + 2 * RECORD_BYTES, RESERVE, 2, True),
        (RESERVE + 2 * RECORD_BYTES - 1, RESERVE, 2, False),
        (0, 0, 2, True),
        (0, RESERVE, 0, True),
        (PLENTY_BYTES, PLENTY_BYTES, 2, True),
        (PLENTY_BYTES - 1, PLENTY_BYTES, 2, False),
    ],
)
async def test_decision_is_refused_when_it_would_use_the_reserve(
    monkeypatch: pytest.MonkeyPatch, free: int, reserve: int, records: int, is_admitted: bool
) -> None:
    monkeypatch.setattr(log_room, "_free_bytes", lambda path: free)
    record = TopicRecord(name="orders", topic_id=bytes(16))
    decided = ControllerResult([record] * records, CreateTopicsResponse())
    asked = Asked(CreateTopicsRequest(topics=[CreatableTopic("orders", 1, 1)]), 7)
    result = LogRoom("/", RepeatedLines()).admitted(asked, decided, reserve)
    if is_admitted:
        assert result is decided
    else:
        assert result.records == []
        assert [topic.error_code for topic in result.response.topics] == [ErrorCode.KAFKA_STORAGE_ERROR]  # type: ignore[attr-defined]
