"""A broker in this process and plain requests to it, for the tests of the data path."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

import odradek
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.records.batch import read_header
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.protocol.schema import Message
from odradek.server.partitions.hosted_partition import HostedPartition

from compat_tests.wire import WireClient

DEADLINE_S = 60
PRODUCE_VERSION = 12
FETCH_VERSION = 12

_names = itertools.count(1)


def wait_until(holds: Callable[[], object], what: str = "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what or "it did not come to hold in time"
        time.sleep(0.005)


def on_loop(path: DataPath, work: Callable[[], Any]) -> Any:
    """Runs `work` on the broker's own loop, which all access to its logs requires."""
    run = path.broker._run
    assert run is not None

    async def do() -> Any:
        result = work()
        return await result if asyncio.iscoroutine(result) else result

    return asyncio.run_coroutine_threadsafe(do(), run.loop).result()


def batch_of(
    *values: bytes | None, key: bytes | None = b"k", timestamp: int | None = None, **options: Any
) -> bytearray:
    """Returns a batch with a record for each value, in order."""
    now_ms = time.time_ns() // 1_000_000 if timestamp is None else timestamp
    records = [Record(number, now_ms, key, value) for number, value in enumerate(values)]
    return bytearray(encode_batch(records, **options))


def error_codes(value: Any) -> set[int]:
    """Returns all error codes in a response, with 0 for what has none."""
    if isinstance(value, list):
        return {code for one in value for code in error_codes(one)}
    if not isinstance(value, Message):
        return set()
    own = {getattr(value, name, 0) for name in ("error_code", "partition_error_code")}
    return own | {code for field in value.SCHEMA.fields for code in error_codes(getattr(value, field.name))}


class DataPath:
    """A client of a broker, with methods to produce and fetch."""

    def __init__(self, broker: odradek.Broker, *, client_id: str = "data-path") -> None:
        self.broker = broker
        self.client = WireClient(broker.bootstrap_servers, client_id=client_id)

    def close(self) -> None:
        self.client.__exit__(None, None, None)

    def another_client(self, client_id: str = "another") -> DataPath:
        return DataPath(self.broker, client_id=client_id)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Creates a topic and returns its name; `segment_bytes="1048576"` sets `segment.bytes`."""
        name = f"topic-{next(_names)}"
        settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        topic = CreatableTopic(name, partitions, 1, configs=settings)
        (made,) = self.client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
        assert made.error_code == 0, made
        return name

    def topic_id(self, name: str) -> bytes:
        found = self.broker.server.node.metadata.image.topic(name)
        assert found is not None
        return found.id

    def hosted(self, topic: str, index: int = 0) -> HostedPartition:
        found = self.broker.server.partitions.hosted.get((topic, index))
        assert found is not None
        return found

    def produce(
        self, topic: str, batch: Any, *, index: int = 0, acks: int = 1, version: int = PRODUCE_VERSION, **request: Any
    ) -> PartitionProduceResponse:
        data = PartitionProduceData(index, batch)
        if version < 13:
            to_topic = TopicProduceData(topic, partition_data=[data])
        else:
            to_topic = TopicProduceData(topic_id=self.topic_id(topic), partition_data=[data])
        message = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[to_topic], **request)
        response: PartitionProduceResponse = self.client.call(message, version).responses[0].partition_responses[0]
        return response

    def fetch(
        self, topic: str, offset: int = 0, *, index: int = 0, version: int = FETCH_VERSION, **fields: Any
    ) -> PartitionData:
        message = fetch_request(topic, offset, index=index, **fields)
        response = self.client.call(message, version)
        assert response.error_code == 0, ErrorCode(response.error_code).name
        data: PartitionData = response.responses[0].partitions[0]
        return data

    def list_offset(self, topic: str, timestamp: int, *, version: int = 11, index: int = 0, **fields: Any) -> Any:
        asked = ListOffsetsPartition(index, fields.pop("epoch", -1), timestamp)
        request = ListOffsetsRequest(replica_id=fields.pop("replica_id", -1), topics=[ListOffsetsTopic(topic, [asked])])
        request.isolation_level = fields.pop("isolation_level", 0)
        assert not fields
        return self.client.call(request, version).topics[0].partitions[0]


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    index: int = 0,
    max_bytes: int = 1 << 20,
    epoch: int = -1,
    last_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    """Returns a Fetch of one partition, without a session or a wait; `fields` set fields of the request."""
    asked = FetchPartition(index, epoch, offset, last_epoch, -1, max_bytes)
    defaults = {"max_wait_ms": 0, "min_bytes": 1, "topics": [FetchTopic(topic, partitions=[asked])]}
    return FetchRequest(**(defaults | fields))


def values_of(data: PartitionData) -> list[bytes | None]:
    """Returns the values of all records in a Fetch response, from its first batch on."""
    values: list[bytes | None] = []
    position, batches = 0, bytes(data.records or b"")
    while position < len(batches):
        header = read_header(batches, position)
        values += [record.value for record in decode_batch(batches, position, header)]
        position += header.size
    return values


def delete_records(path: DataPath, topic: str, offset: int, index: int = 0) -> tuple[int, int]:
    """Returns (error code, low watermark)."""
    asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, offset)])
    (found,) = path.client.call(DeleteRecordsRequest([asked], 1000), 2).topics
    return found.partitions[0].error_code, found.partitions[0].low_watermark
