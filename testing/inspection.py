"""Brokers as a test sees them, without a client.

`broker.topic("orders")`: the records of a topic, read from the broker's own log. `broker.group("billing")`: the committed
offsets, the lag, the state and the members of a group.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from ..protocol.apis import APIS, RequestHeader, ResponseHeader
from ..protocol.codec import decode, encode
from ..protocol.errors import ErrorCode
from ..protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ..protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ..protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ..protocol.records.batch import iter_headers
from ..protocol.records.record import Record, decode_batch, encode_batch
from ..protocol.schema import Message
from ..server.access.provisioning import ClientFiles
from ..server.services import Services
from .faults.striking import OWN_CLIENT_ID
from .loop_thread import reached
from .run_holder import Completion

if TYPE_CHECKING:
    from ..coordinator.groups.state import ShardState
    from ..server.broker import BrokerServer
    from ..server.partitions.hosted_partition import HostedPartition
    from .broker_run import EmbeddedRun
    from .run_holder import RunHolder

# Records that a test puts into a topic without a client of its own; faults do not strike them.


_VERSION = 9
_TIMEOUT_S = 30.0


def send(address: str, topic: str, partition: int, records: list[Record], files: ClientFiles | None = None) -> int:
    """Sends records to the leader of a partition. Returns the offset of the first. Blocks. Raises RuntimeError, OSError.

    `files`: those of a secured broker, whose first user sends.
    """
    for offset, record in enumerate(records):
        record.offset = offset
    part = PartitionProduceData(index=partition, records=encode_batch(records))
    request = ProduceRequest(
        acks=-1, timeout_ms=int(_TIMEOUT_S * 1000), topic_data=[TopicProduceData(name=topic, partition_data=[part])]
    )
    with _connected(address, files) as connection:
        if files is not None and files.security.has_sasl:
            _log_in(connection, files)
        result = _ask(connection, request, _VERSION).responses[0].partition_responses[0]
    if result.error_code:
        raise RuntimeError(f"{topic}-{partition}: {ErrorCode(result.error_code).name} {result.error_message or ''}")
    return int(result.base_offset)


def _connected(address: str, files: ClientFiles | None) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    connection = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
    if files is None or not files.security.has_tls:
        return connection
    try:
        return files.ssl_context(files.security.first_user).wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def _log_in(connection: socket.socket, files: ClientFiles) -> None:
    """Raises RuntimeError."""
    from ..client.sasl import PasswordLogin

    security = files.security
    user = security.first_user
    exchange = PasswordLogin(security.mechanism, user, security.users[user]).client("")
    _ask(connection, SaslHandshakeRequest(mechanism=security.mechanism), 1)
    token: bytes | None = exchange.first()
    while token is not None:
        response = _ask(connection, SaslAuthenticateRequest(auth_bytes=token), 1)
        if response.error_code:
            raise RuntimeError(f"the broker rejected the login of {user}: {response.error_message}")
        token = exchange.respond(response.auth_bytes)


def _ask(connection: socket.socket, request: Message, version: int) -> Any:
    api = APIS[request.SCHEMA.key or 0]
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=1, client_id=OWN_CLIENT_ID
    )
    data = encode(header, api.request_header_version(version)) + encode(request, version)
    connection.sendall(struct.pack(">i", len(data)) + data)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    response = _exactly(connection, size)
    _, at = decode(ResponseHeader, api.response_header_version(version), response)
    return decode(api.response, version, response, at)[0]


def _exactly(connection: socket.socket, count: int) -> bytes:
    """Raises ConnectionError where the broker ends the connection."""
    received = bytearray()
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        received += piece
    return bytes(received)


_READ_BYTES = 8 << 20
_CREATE_VERSION = 7


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record as the broker has it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


class Waited(list[SeenRecord]):
    """The records that came. In a plain program they are here; in an event loop `await` it, and any other use of it before
    raises RuntimeError.
    """

    def __init__(self, work: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self._work = work

    def __await__(self) -> Generator[object, None, list[SeenRecord]]:
        work, self._work = self._work, None
        if work is not None:
            self[:] = yield from work().__await__()
        return list(self)

    def _check_awaited(self) -> None:
        if self._work is not None:
            raise RuntimeError("wait_for() has no records yet: inside an event loop write `await topic.wait_for(...)`")

    # Each use of a list.

    def __len__(self) -> int:
        self._check_awaited()
        return super().__len__()

    def __iter__(self) -> Iterator[SeenRecord]:
        self._check_awaited()
        return super().__iter__()

    def __reversed__(self) -> Iterator[SeenRecord]:
        self._check_awaited()
        return super().__reversed__()

    @overload
    def __getitem__(self, index: SupportsIndex) -> SeenRecord: ...

    @overload
    def __getitem__(self, index: slice) -> list[SeenRecord]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> SeenRecord | list[SeenRecord]:
        self._check_awaited()
        return super().__getitem__(index)

    def __contains__(self, record: object) -> bool:
        self._check_awaited()
        return super().__contains__(record)

    def __eq__(self, other: object) -> bool:
        self._check_awaited()
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        self._check_awaited()
        return super().__ne__(other)

    def __repr__(self) -> str:
        return "<wait_for(): to be awaited>" if self._work is not None else super().__repr__()

    __hash__ = None  # as of a list


class TopicView:
    """A topic of a broker or of a cluster; it need not exist yet."""

    def __init__(self, embedded: RunHolder, name: str) -> None:
        self._embedded = embedded
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<topic {self.name}>"

    @property
    def exists(self) -> bool:
        return bool(self.end_offsets)

    @property
    def end_offsets(self) -> dict[int, int]:
        """The high watermark of each partition; empty for a topic that is not there."""
        run = self._embedded._here()
        return self._embedded._look(lambda: {one.index: one.role.high_watermark for one in leaders(run, self.name)})

    def records(self, partition: int | None = None, *, committed: bool = False) -> list[SeenRecord]:
        """Returns the records of all partitions, or of one, in order of partition and offset.

        `committed`: without those of transactions that are open or aborted. Compressed batches are opened.
        """
        run = self._embedded._here()

        def look() -> list[SeenRecord]:
            chosen = [one for one in leaders(run, self.name) if partition in (None, one.index)]
            return [record for hosted in chosen for record in _records(hosted, committed)]

        return self._embedded._look(look)

    def values(self) -> list[bytes | None]:
        """Returns the values of all records, in order of partition and offset."""
        return [record.value for record in self.records()]

    def wait_for(self, records: int = 1, *, timeout: float = 10.0, committed: bool = False) -> Waited:
        """Waits until the topic has this many records, and returns all. Blocks, or is awaited in an event loop.

        Raises TimeoutError, whose text has the number of records that came.
        """
        run = self._embedded._here()

        def seen() -> list[SeenRecord]:
            return [record for hosted in leaders(run, self.name) for record in _records(hosted, committed)]

        def are_there() -> bool:
            return sum(one.role.high_watermark for one in leaders(run, self.name)) >= records and len(seen()) >= records

        async def wait() -> list[SeenRecord]:
            try:
                await reached(are_there, f"{records} records in {self.name}", timeout)
            except TimeoutError as late:
                raise TimeoutError(f"{late}; the topic has {len(seen())}") from None
            return seen()

        return _waited(self._embedded, wait)

    def send(
        self,
        *values: bytes | None,
        key: bytes | None = None,
        partition: int = 0,
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> Completion[int]:
        """Appends a record per value, all with the same key and headers; creates the topic where it is not there.

        Returns the offset of the first. Raises ValueError without a value, TypeError for a text, RuntimeError for what the
        broker refuses.
        """
        if not values:
            raise ValueError("send() needs at least one value")
        now_ms = self._embedded._here().clock.now_ms()
        return self.append(partition, [(now_ms, key, value, headers or []) for value in values])

    def append(
        self,
        partition: int,
        records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    ) -> Completion[int]:
        """Appends records given as timestamp in ms, key, value and headers, in one batch; otherwise as `send`."""
        run, name = self._embedded._here(), self.name
        for _, key, value, headers in records:
            _check_bytes("key", key)
            _check_bytes("value", value)
            for header, content in headers:
                _check_bytes(f"header {header}", content)
        batch = [Record(timestamp=at, key=key, value=value, headers=headers) for at, key, value, headers in records]

        async def work() -> int:
            if not leaders(run, name):
                await self._create(run, 1, -1, {})
            files = run.secured.files if run.secured is not None else None
            return await asyncio.to_thread(send, leader_address(run, name, partition), name, partition, batch, files)

        return self._embedded._do("append()", work)

    def create(
        self, partitions: int = 1, *, replication_factor: int = -1, config: dict[str, str] | None = None
    ) -> Completion[TopicView]:
        """Creates the topic. Raises RuntimeError where the broker refuses it."""
        run = self._embedded._here()

        async def create() -> TopicView:
            await self._create(run, partitions, replication_factor, config or {})
            return self

        return self._embedded._do("create()", create)

    async def _create(self, run: EmbeddedRun, partitions: int, factor: int, config: dict[str, str]) -> None:
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in config.items()]
        topic = CreatableTopic(name=self.name, num_partitions=partitions, replication_factor=factor, configs=configs)
        response = await run.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), _CREATE_VERSION)
        result = response.topics[0]
        if result.error_code:
            raise RuntimeError(f"{self.name}: {ErrorCode(result.error_code).name} {result.error_message or ''}")
        await reached(lambda: len(leaders(run, self.name)) == partitions, f"the leaders of {self.name}")


def values_of(server: BrokerServer, topic: str) -> list[bytes | None]:
    """Returns the values of a topic's records on one broker: for simulations, whose nodes are servers."""
    found = sorted((one for one in server.partitions.hosted if one.topic == topic), key=lambda hosted: hosted.index)
    return [record.value for hosted in found for record in _records(hosted, False)]


def _check_bytes(what: str, content: object) -> None:
    """Raises TypeError."""
    if content is not None and not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"{what} must be bytes, not {type(content).__name__}")


def leader_address(run: EmbeddedRun, topic: str, partition: int) -> str:
    """Returns the address of the broker that leads a partition. Raises RuntimeError without one."""
    for server in run.servers.values():
        hosted = server.partitions.hosted.get((topic, partition)) if isinstance(server.services, Services) else None
        if hosted is not None and hosted.role.is_leader:
            return server.addresses[0]
    raise RuntimeError(f"no running broker leads {topic}-{partition}")


def leaders(run: EmbeddedRun, topic: str) -> list[HostedPartition]:
    """Returns the leading replicas of a topic's partitions, in order. Belongs to the loop's thread."""
    found = [
        hosted
        for server in run.servers.values()
        if isinstance(server.services, Services)
        for hosted in server.partitions.hosted
        if hosted.topic == topic and hosted.role.is_leader and not hosted.is_removed
    ]
    return sorted(found, key=lambda hosted: hosted.index)


def _records(hosted: HostedPartition, committed: bool) -> Iterator[SeenRecord]:
    log, offset = hosted.log, hosted.log.log_start_offset
    end = hosted.last_stable_offset if committed else hosted.role.high_watermark
    aborted = log.aborted_transactions(offset, end) if committed else []
    while offset < end:
        piece = log.read(offset, _READ_BYTES, end)
        if piece.next_offset <= offset:
            return
        data = bytes(piece.bytes())
        for at, header in iter_headers(data):
            if header.is_control or any(
                one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
                for one in aborted
                if header.is_transactional
            ):
                continue
            for record in decode_batch(data, at, header):
                if offset <= record.offset < end:
                    yield SeenRecord(
                        hosted.topic,
                        hosted.index,
                        record.offset,
                        record.timestamp,
                        record.key,
                        record.value,
                        record.headers,
                    )
        offset = piece.next_offset


def _waited(holder: RunHolder, work: Callable[[], Coroutine[object, None, list[SeenRecord]]]) -> Waited:
    """Waits for records: blocks, but in an event loop, whichever that is, it is awaited."""
    done = holder._wait_done("wait_for()", work)
    if not done.is_done:
        return Waited(lambda: done)
    waited = Waited()
    waited.extend(done.result)
    return waited


class GroupView:
    """A group of consumers of any kind; it need not exist yet."""

    def __init__(self, embedded: RunHolder, group_id: str) -> None:
        self._embedded = embedded
        self.group_id = group_id

    def __repr__(self) -> str:
        return f"<group {self.group_id}>"

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """Committed offsets by topic and partition."""
        run = self._embedded._here()
        return self._embedded._look(lambda: offsets(run, self.group_id))

    @property
    def lags(self) -> dict[tuple[str, int], int]:
        """Records that wait, by topic and partition: of every partition of the topics in which the group has committed."""
        run = self._embedded._here()
        return self._embedded._look(lambda: lags(run, self.group_id))

    @property
    def lag(self) -> int | None:
        """The sum of `lags`; None before the group has committed anything."""
        found = self.lags
        return sum(found.values()) if found else None

    @property
    def state(self) -> str | None:
        """The state of the group by Kafka's name, such as "Stable"; None where there is no such group."""
        run = self._embedded._here()
        return self._embedded._look(lambda: state(run, self.group_id))

    @property
    def members(self) -> list[str]:
        """The ids of its members."""
        run = self._embedded._here()
        return self._embedded._look(lambda: sorted(getattr(_group(run, self.group_id), "members", ())))

    def wait_for(
        self, *, lag: int | None = None, state: str | None = None, members: int | None = None, timeout: float = 10.0
    ) -> Completion[None]:
        """Waits until the lag is at most so many records, the state is this one, there are so many members.

        Blocks, or is awaited in an event loop. Raises TimeoutError, whose text has the state at the end.
        """
        run, group_id = self._embedded._here(), self.group_id
        state_of = globals()["state"]

        def is_there() -> bool:
            waiting = lags(run, group_id)
            return (
                (lag is None or (bool(waiting) and sum(waiting.values()) <= lag))
                and (state is None or state_of(run, group_id) == state)
                and (members is None or len(getattr(_group(run, group_id), "members", ())) == members)
            )

        async def wait() -> None:
            try:
                await reached(is_there, f"a condition on group {group_id}", timeout)
            except TimeoutError as late:
                count = len(getattr(_group(run, group_id), "members", ()))
                raise TimeoutError(
                    f"{late}; the group is {state_of(run, group_id)} with {count} members and lag {lags(run, group_id)}"
                ) from None

        return self._embedded._wait_done("wait_for()", wait)


def shard_states(run: EmbeddedRun) -> list[ShardState]:
    """Returns the states of the groups' coordinators. Belongs to the loop's thread, as all below."""
    drivers = [
        driver
        for server in run.servers.values()
        if isinstance(server.services, Services)
        for driver in server.services.coordinators.groups.shards()
    ]
    return [driver.shard.state for driver in drivers if driver.shard is not None]


def _group(run: EmbeddedRun, group_id: str) -> Any:
    return next((one.groups[group_id] for one in shard_states(run) if group_id in one.groups), None)


def state(run: EmbeddedRun, group_id: str) -> str | None:
    group = _group(run, group_id)
    return str(group.state.value) if group is not None else None


def offsets(run: EmbeddedRun, group_id: str) -> dict[tuple[str, int], int]:
    return {
        (topic, index): committed.offset
        for one in shard_states(run)
        for topic, partitions in one.offsets.of_group(group_id).items()
        for index, committed in partitions.items()
    }


def lags(run: EmbeddedRun, group_id: str) -> dict[tuple[str, int], int]:
    committed = offsets(run, group_id)
    found = {}
    for topic in dict.fromkeys(topic for topic, _ in committed):
        for hosted in leaders(run, topic):
            begin = committed.get((topic, hosted.index), hosted.log.log_start_offset)
            found[topic, hosted.index] = max(0, hosted.role.high_watermark - begin)
    return found
