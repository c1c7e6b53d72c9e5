"""The workload: producers with acks=all and consumers, which check what they must never see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode
from ....protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ....protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ....protocol.messages.init_producer_id import InitProducerIdRequest
from ....protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ....protocol.records.batch import iter_headers
from ....protocol.records.record import Record, decode_batch, encode_batch
from .client import BACKOFF_S, Unreachable
from .invariants import ACKNOWLEDGED, Broken

if TYPE_CHECKING:
    from ....protocol.messages.create_topics import CreateTopicsResponse
    from ....protocol.messages.fetch import PartitionData
    from ....protocol.messages.init_producer_id import InitProducerIdResponse
    from ....protocol.schema import Request, ResponseT
    from .client import Client


TOPIC = "orders"
PARTITIONS = 2
_CREATE_VERSION, _INIT_VERSION, _PRODUCE_VERSION, _FETCH_VERSION = 7, 4, 9, 12
#: The errors that a client's own retries absorb.
RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    }
)

#: Called with (partition, end offset) of each acknowledged batch.
Committed = Callable[[int, int], None]


class Acknowledged(NamedTuple):
    partition: int
    base_offset: int
    values: list[bytes]


def reject_fatal(error: int, what: str) -> None:
    if error and error not in RETRIABLE:
        raise Broken(ACKNOWLEDGED, f"{what}: {ErrorCode(error).name}")


async def until_done(
    client: Client, request: Request[ResponseT], version: int, lane: str, error_of: Callable[[ResponseT], int]
) -> ResponseT:
    """Sends the request to any broker until there is a response without an error, and returns that response."""
    while True:
        try:
            response = await client.ask(client.any_address(), request, version, lane)
            error = error_of(response)
            if not error:
                return response
            reject_fatal(error, type(request).__name__)
        except Unreachable:
            pass
        await asyncio.sleep(BACKOFF_S)


async def create_topic(client: Client, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=3)

    def error_of(response: CreateTopicsResponse) -> int:
        error: int = response.topics[0].error_code
        return 0 if error == ErrorCode.TOPIC_ALREADY_EXISTS else error

    await until_done(client, CreateTopicsRequest([topic], timeout_ms=5000), _CREATE_VERSION, "create", error_of)


class Producer:
    """A producer. Each partition has one batch in flight, which is sent until it is acknowledged."""

    def __init__(self, name: str, client: Client, rng: Random, committed: Committed) -> None:
        self.acknowledged: list[Acknowledged] = []
        self._name = name
        self._client = client
        self._rng = rng
        self._committed = committed
        self._is_over = False
        self._number = 0

    def end(self) -> None:
        """Ends the producer. Batches in flight are still delivered."""
        self._is_over = True

    async def run(self, interval_s: float) -> None:
        request = InitProducerIdRequest(None, 60_000)
        response = await until_done(
            self._client, request, _INIT_VERSION, "init", lambda response: int(response.error_code)
        )
        async with asyncio.TaskGroup() as group:
            for index in range(PARTITIONS):
                group.create_task(self._fill(index, response, interval_s))

    async def _fill(self, index: int, producer: InitProducerIdResponse, interval_s: float) -> None:
        sequence = 0
        while not self._is_over:
            await asyncio.sleep(self._rng.uniform(0, 2 * interval_s))
            values = [self._value() for _ in range(self._rng.choice((1, 1, 1, 2, 5)))]
            now_ms = int(asyncio.get_running_loop().time() * 1000)  # old records are deleted by retention
            batch = encode_batch(
                [Record(number, now_ms, value=value) for number, value in enumerate(values)],
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=sequence,
            )
            offset = await self._deliver(index, batch)
            self.acknowledged.append(Acknowledged(index, offset, values))
            self._committed(index, offset + len(values))
            sequence += len(values)

    def _value(self) -> bytes:
        self._number += 1
        return b"%s-%d" % (self._name.encode(), self._number)

    async def _deliver(self, index: int, batch: bytes) -> int:
        """Delivers a batch. Returns its offset."""
        topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index, batch)])
        request = ProduceRequest(acks=-1, timeout_ms=self._rng.choice((1500, 5000)), topic_data=[topic])
        while True:
            leader = await self._client.leader(index, f"produce {index}")
            try:
                response = await self._client.ask(leader.address, request, _PRODUCE_VERSION, f"produce {index}")
                data = response.responses[0].partition_responses[0]
                if not data.error_code:
                    return int(data.base_offset)
                reject_fatal(data.error_code, f"Produce to {TOPIC}-{index} of {self._name}")
            except Unreachable:
                pass
            self._client.forget(index)
            await asyncio.sleep(self._rng.uniform(0, 2 * BACKOFF_S))


class Consumer:
    """Reads every partition from the beginning and checks that offsets increase by one and no record is duplicated."""

    def __init__(self, client: Client) -> None:
        #: By partition: the records read; a record's index is its offset.
        self.values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        self._client = client

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for index in range(PARTITIONS):
                group.create_task(self._read(index))

    async def _read(self, index: int) -> None:
        lane = f"fetch {index}"
        while True:
            leader = await self._client.leader(index, lane)
            place = FetchPartition(index, leader.epoch, len(self.values[index]), partition_max_bytes=1 << 20)
            request = FetchRequest(max_wait_ms=2000, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[place])])
            try:
                response = await self._client.ask(leader.address, request, _FETCH_VERSION, lane)
                error = response.error_code or self._take(index, response.responses[0].partitions[0])
            except Unreachable:
                error = ErrorCode.NETWORK_EXCEPTION
            if error:
                self._client.forget(index)
                await asyncio.sleep(BACKOFF_S)

    def _take(self, index: int, data: PartitionData) -> int:
        reject_fatal(data.error_code, f"Fetch of {TOPIC}-{index} at {len(self.values[index])}")
        values = self.values[index]
        records = data.records or b""
        for position, header in iter_headers(records):
            for record in decode_batch(records, position, header):
                if record.offset == len(values):
                    assert record.value is not None
                    values.append(record.value)
                elif record.offset > len(values):
                    raise Broken(ACKNOWLEDGED, f"{TOPIC}-{index}: offset {record.offset} after {len(values) - 1}")
        return int(data.error_code)
