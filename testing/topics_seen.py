"""Topics as a test sees them, without a client: the records are read from the broker's own log (`broker.topic`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, SupportsIndex, overload

from ..protocol.errors import ErrorCode
from ..protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ..protocol.records.batch import iter_headers
from ..protocol.records.record import Record, decode_batch
from ..server.services import Services
from .polling import reached
from .sending import send

if TYPE_CHECKING:
    from ..server.broker import BrokerServer
    from ..server.partitions.hosted_partition import HostedPartition
    from .broker_run import EmbeddedRun
    from .completion import Completion
    from .run_holder import RunHolder

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

    def __init__(self, work: Callable[[], Awaitable[list[SeenRecord]]] | None = None) -> None:
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

        `committed`: without those of transactions that are open or aborted. Compressed batches are opened. A topic that does
        not exist has none.
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
    log, offset = hosted.open_log(), hosted.log.log_start_offset
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
