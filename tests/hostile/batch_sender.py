"""A producer that sends bytes as a partition's records; the caller makes them."""

from __future__ import annotations

import contextlib
import time
from types import TracebackType
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

from compat_tests.wire import ConnectionClosed, WireClient

_CREATE_VERSION, _METADATA_VERSION, _PRODUCE_VERSION = 7, 9, 12
_DEADLINE_S = 60

_WRONG_CRC = bytes(16) + b"\x02" + bytes(60)
_WRONG_CRC = _WRONG_CRC[:8] + (len(_WRONG_CRC) - 12).to_bytes(4, "big") + _WRONG_CRC[12:]
_NOT_LED_YET = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

#: Topics whose configurations lead a batch through different code to the log.
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "log-append-time": {"message.timestamp.type": "LogAppendTime"},
    "to-gzip": {"compression.type": "gzip"},
    "to-uncompressed": {"compression.type": "uncompressed"},
    "not-before": {"message.timestamp.before.max.ms": "86400000"},
}


class BatchSender:
    """A connection to a broker; a new connection when the broker closes it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._client = WireClient(bootstrap)

    def create_topics(self, topics: dict[str, dict[str, str]]) -> None:
        wanted = [
            CreatableTopic(name, 1, 1, [], [CreatableTopicConfig(*item) for item in configs.items()])
            for name, configs in topics.items()
        ]
        response = self._client.call(CreateTopicsRequest(wanted, 30_000, False), _CREATE_VERSION)
        assert [topic.error_code for topic in response.topics] == [0] * len(topics), response
        deadline = time.monotonic() + _DEADLINE_S
        for name in topics:
            # The leader rejects a wrong CRC; a broker that does not lead the partition yet returns another error.
            while self.error(name, _WRONG_CRC) in _NOT_LED_YET:
                assert time.monotonic() < deadline, f"{name} was not led in time"

    def produce(self, topic: str, records: bytes, *, acks: int = 1, **request: Any) -> PartitionProduceResponse:
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])]
        produce = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data, **request)
        (response,) = self._client.call(produce, _PRODUCE_VERSION).responses[0].partition_responses
        found: PartitionProduceResponse = response
        return found

    def error(self, topic: str, records: bytes, **request: Any) -> ErrorCode:
        return ErrorCode(self.produce(topic, records, **request).error_code)

    def produce_unanswered(self, topic: str, records: bytes) -> bool:
        """Sends with acks=0. Returns whether the connection is still open after the broker has handled the request."""
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])]
        try:
            self._client.send(ProduceRequest(acks=0, topic_data=data), _PRODUCE_VERSION)
            self._client.call(MetadataRequest([], False), _METADATA_VERSION)
        except ConnectionClosed:
            self._client.close()
            self._client = WireClient(self.bootstrap)
            return False
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._client.close()

    def __enter__(self) -> BatchSender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
