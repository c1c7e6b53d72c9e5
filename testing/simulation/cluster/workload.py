"""The workload: producers with acks=all and consumers, which check what they must never see, and an operator of topics."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from ....metadata.image import TOPIC_RESOURCE
from ....protocol.apis import APIS, RequestHeader, ResponseHeader
from ....protocol.codec import decode, encode
from ....protocol.errors import ErrorCode
from ....protocol.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ....protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ....protocol.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ....protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from ....protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ....protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ....protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from ....protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ....protocol.records.batch import iter_headers
from ....protocol.records.record import Record, decode_batch, encode_batch
from ....protocol.schema import Message
from ..network import Address
from .invariants import ACKNOWLEDGED, NO_BUG, Broken
from .nodes import VOTER_IDS

if TYPE_CHECKING:
    from ....protocol.messages.fetch import PartitionData
    from ....protocol.messages.topics import CreateTopicsResponse

# A small protocol client: one request in flight per connection, and a response or `Unreachable`.


#: Delay between two attempts.
BACKOFF_S = 0.1
_METADATA_VERSION = 12
_TIMEOUT_S = 6.0
_MAX_FRAME_BYTES = 16 << 20


class Unreachable(ConnectionError):
    """There was no response, for whatever reason; the request may or may not have been received."""


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.WriteTransport
        self.response: asyncio.Future[bytes] | None = None
        self.is_lost = False
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < 4:
            return
        size = struct.unpack_from(">i", self._received)[0]
        assert 0 < size < _MAX_FRAME_BYTES
        if len(self._received) < 4 + size:
            return
        frame, self._received = self._received[4 : 4 + size], self._received[4 + size :]
        assert self.response is not None, "a response without a request"
        if not self.response.done():
            self.response.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.response is not None and not self.response.done():
            self.response.set_exception(Unreachable("the connection was lost"))


class Leader(NamedTuple):
    address: Address
    epoch: int


class Client:
    """A client. Its calls may overlap if each has its own `lane`."""

    def __init__(self, bootstrap: list[Address], topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._connections: dict[tuple[Address, str], _Connection] = {}
        self._leaders: dict[int, Leader] = {}
        #: The newest known leader of each partition.
        self._epochs: dict[int, int] = {}
        self._turn = 0
        self._correlation = 0

    # ---- requests

    async def ask(
        self, address: Address, request: Message, version: int, lane: str = "", timeout_s: float = _TIMEOUT_S
    ) -> Any:
        """Raises Unreachable."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(address, request, version, lane)
        except (TimeoutError, ConnectionError) as failure:
            self._drop((address, lane))
            raise Unreachable(str(failure)) from None
        except asyncio.CancelledError:
            self._drop((address, lane))  # a late response must not be taken for the next one's
            raise

    async def _ask(self, address: Address, request: Message, version: int, lane: str) -> Any:
        loop = asyncio.get_running_loop()
        connection = self._connections.get((address, lane))
        if connection is None or connection.is_lost:
            _, connection = await loop.create_connection(_Connection, *address)
            self._connections[address, lane] = connection
        assert request.SCHEMA.key is not None
        api = APIS[request.SCHEMA.key]
        self._correlation += 1
        header = RequestHeader(api.key, version, self._correlation, "judge")
        body = encode(header, api.request_header_version(version)) + encode(request, version)
        connection.response = loop.create_future()
        connection.transport.write(struct.pack(">i", len(body)) + body)
        frame = await connection.response
        answered, position = decode(ResponseHeader, api.response_header_version(version), frame)
        assert answered.correlation_id == header.correlation_id, "responses are in order"
        return decode(api.response, version, frame, position)[0]

    def _drop(self, key: tuple[Address, str]) -> None:
        connection = self._connections.pop(key, None)
        if connection is not None:
            connection.transport.abort()

    # ---- leaders

    def any_address(self) -> Address:
        """Returns the bootstrap addresses in rotation."""
        self._turn += 1
        return self._bootstrap[self._turn % len(self._bootstrap)]

    async def leader(self, index: int, lane: str) -> Leader:
        """Sends requests until a node returns the partition's leader."""
        while index not in self._leaders:
            try:
                found = await self._metadata(lane)
            except Unreachable:
                await asyncio.sleep(BACKOFF_S)
                continue
            for one, leader in found.items():
                # A node that was cut off returns stale metadata (KIP-320).
                if leader.epoch >= self._epochs.get(one, 0):
                    self._leaders[one], self._epochs[one] = leader, leader.epoch
            if index not in self._leaders:
                await asyncio.sleep(BACKOFF_S)
        return self._leaders[index]

    def forget(self, index: int) -> None:
        """Forgets the leader of the partition, which changed or does not respond."""
        self._leaders.pop(index, None)

    async def _metadata(self, lane: str) -> dict[int, Leader]:
        request = MetadataRequest([MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False)
        response: MetadataResponse = await self.ask(
            self.any_address(), request, _METADATA_VERSION, f"metadata {lane}", 2.0
        )
        brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        topic = response.topics[0]
        if topic.error_code != ErrorCode.NONE:
            return {}
        return {
            one.partition_index: Leader(brokers[one.leader_id], one.leader_epoch)
            for one in topic.partitions
            if one.leader_id in brokers
        }


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


class Acknowledged(NamedTuple):
    partition: int
    base_offset: int
    values: list[bytes]


#: Called with (partition, end offset) of each acknowledged batch.
Committed = Callable[[int, int], None]


def reject_fatal(error: int, what: str) -> None:
    if error and error not in RETRIABLE:
        raise Broken(ACKNOWLEDGED, f"{what}: {ErrorCode(error).name}")


async def until_done(client: Client, request: Message, version: int, lane: str, error_of: Callable[[Any], int]) -> Any:
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


# A consumer without group membership that commits the offsets 1, 2, 3... Acknowledged commits must exist at the end.


GROUP = "readers"
_FIND_VERSION, _COMMIT_VERSION, _OFFSET_FETCH_VERSION = 3, 8, 7


class Committer:
    """Commits offsets. `acknowledged`: the last offset whose commit was acknowledged."""

    def __init__(self, client: Client, rng: Random) -> None:
        self.acknowledged = -1
        self._sent = -1
        self._client = client
        self._rng = rng
        self._coordinator: Address | None = None

    async def run(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2 * interval_s))
            self._sent += 1
            place = OffsetCommitRequestPartition(0, self._sent, committed_metadata="")
            topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[place])]
            response = await self._ask(OffsetCommitRequest(GROUP, topics=topics), _COMMIT_VERSION)
            if response is not None and self._is_good(response.topics[0].partitions[0].error_code):
                self.acknowledged = self._sent

    async def check(self) -> None:
        """Checks the committed offset, retrying until there is a response. A node that was cut off may return a stale
        offset, so this runs after all faults have ended.
        """
        request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, [0])])
        while True:
            response = await self._ask(request, _OFFSET_FETCH_VERSION)
            if response is not None and self._is_good(
                response.error_code or response.topics[0].partitions[0].error_code
            ):
                break
            await asyncio.sleep(BACKOFF_S)
        found = response.topics[0].partitions[0].committed_offset
        if not self.acknowledged <= found <= self._sent:
            reported = f"{self.acknowledged} was acknowledged and {self._sent} sent"
            raise Broken(ACKNOWLEDGED, f"group {GROUP} has committed {found}, where {reported}")

    def _is_good(self, error: int) -> bool:
        reject_fatal(error, f"group {GROUP}")
        if error:
            self._coordinator = None
        return not error

    async def _ask(self, request: Message, version: int) -> Any:
        """Returns the coordinator's response; None when there is none."""
        try:
            if self._coordinator is None:
                asked = FindCoordinatorRequest(key=GROUP)
                found = await self._client.ask(self._client.any_address(), asked, _FIND_VERSION, "group")
                if not self._is_good(found.error_code):
                    return None
                self._coordinator = (found.host, found.port)
            return await self._client.ask(self._coordinator, request, version, "group")
        except Unreachable:
            self._coordinator = None
            return None


# Changes the cluster constantly: creates, deletes, grows and configures topics, and moves replicas and leaders.


_TIMEOUT_MS = 3000
_AGAIN_S = 3.0
_TOPICS = ("letters", "parcels")
_MOST_PARTITIONS = 4


class Operator:
    """Sends each request once. A request may fail, but not by a bug."""

    def __init__(self, client: Client, node_ids: Sequence[int], rng: Random) -> None:
        self._client = client
        self._node_ids = node_ids
        self._rng = rng
        self._kinds: list[Callable[[], tuple[Message, int]]] = [
            self._create,
            self._delete,
            self._grow,
            self._configure,
            self._elect,
            self._reassign,
        ]

    async def run(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2 * interval_s))
            await self._ask(*self._rng.choice(self._kinds)())

    async def end(self) -> None:
        """Reassigns every partition to its original replicas. Earlier requests may still be in flight."""
        while True:
            await self._ask(*self._reassignment(list(VOTER_IDS), every=True))
            await asyncio.sleep(_AGAIN_S)

    async def _ask(self, request: Message, version: int) -> bool:
        try:
            response = await self._client.ask(self._client.any_address(), request, version, "operator")
        except Unreachable:
            return False
        errors = set(_errors(response))
        if ErrorCode.UNKNOWN_SERVER_ERROR in errors:
            raise Broken(NO_BUG, f"{request}: {response}")
        return errors <= {ErrorCode.NONE}

    # ---- requests, with their versions

    def _create(self) -> tuple[Message, int]:
        topic = CreatableTopic(name=self._topic(), num_partitions=2, replication_factor=3)
        return CreateTopicsRequest([topic], timeout_ms=_TIMEOUT_MS), 7

    def _delete(self) -> tuple[Message, int]:
        return DeleteTopicsRequest(topics=[DeleteTopicState(self._topic())], timeout_ms=_TIMEOUT_MS), 6

    def _grow(self) -> tuple[Message, int]:
        count = self._rng.randint(3, _MOST_PARTITIONS)
        return CreatePartitionsRequest([CreatePartitionsTopic(self._topic(), count, None)], _TIMEOUT_MS), 3

    def _configure(self) -> tuple[Message, int]:
        config = AlterableConfig("retention.ms", 0, str(self._rng.randint(10**9, 10**10)))
        return IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, self._topic(), [config])]), 1

    def _elect(self) -> tuple[Message, int]:
        return ElectLeadersRequest(0, None, _TIMEOUT_MS), 2

    def _reassign(self) -> tuple[Message, int]:
        """Reassigns a partition. Two replicas are the minimum for durability."""
        replicas = self._rng.sample(self._node_ids, self._rng.choice((2, 3)))
        return self._reassignment(replicas, every=False)

    def _reassignment(self, replicas: list[int], *, every: bool) -> tuple[Message, int]:
        indexes = range(PARTITIONS) if every else [self._rng.randrange(PARTITIONS)]
        topic = ReassignableTopic(TOPIC, [ReassignablePartition(index, replicas) for index in indexes])
        return AlterPartitionReassignmentsRequest(_TIMEOUT_MS, topics=[topic]), 1

    def _topic(self) -> str:
        return self._rng.choice(_TOPICS)


def _errors(response: Message) -> Iterator[int]:
    """Yields every error code in a response, at any depth."""
    for field in fields(response):
        value = getattr(response, field.name)
        if field.name == "error_code":
            yield value
        for inner in value if isinstance(value, list) else ():
            if isinstance(inner, Message):
                yield from _errors(inner)
