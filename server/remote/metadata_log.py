"""The metadata topic of tiered storage, `__remote_log_metadata`: events are produced to it, and consumed into caches.

A broker follows the metadata partitions of its tiered partitions. One task for each broker that leads some of them reads:
from the log where this broker is the leader, else with Fetch requests, all partitions in one. `publish` returns when this
broker has read its own event back, so that a cache is never behind the decisions that are based on it.

The topic is made with the first tiered partition. `tiers/metadata_topic.py` decides what an event changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...protocol.acks import ALL_IN_SYNC
from ...protocol.errors import ErrorCode
from ...protocol.log_places import EARLIEST, LATEST
from ...protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ...protocol.node_ids import CONSUMER
from ...protocol.records.batch import BatchHeader, check_crc, iter_headers
from ...protocol.records.errors import BatchError
from ...protocol.records.record import Record, decode_batch, encode_batch
from ...storage.files.page_cache import pread_nowait
from ...storage.log.log import OffsetOutOfRange
from ...tiers.cache import Applied
from ...tiers.events import encode_event
from ...tiers.metadata_snapshot import CorruptSnapshot, read_snapshot, write_snapshot
from ...tiers.metadata_topic import Deletion, Followed, MetadataPartition, metadata_partition
from ...tiers.segment_metadata import METADATA_TOPIC, RemoteLogMetadata, TopicIdPartition

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...protocol.schema import Request, ResponseT
    from ..config.endpoint import Endpoint
    from ..controller.leaders import Leaders
    from ..coordinators.topic_creation import TopicCreation
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node

T = TypeVar("T")
log = logging.getLogger("odradek.remote")

TASK = "reading of __remote_log_metadata"
PURPOSE = "remote log metadata"
TIMEOUT_MS = 30_000
FETCH_WAIT_MS = 500
FETCH_BYTES = 1 << 20
#: Events that are applied before the loop does something else: some 50 us each.
EVENTS_AT_A_TIME = 100
#: Larger batches, and compressed ones, are decoded on a thread, up to this size when decompressed.
DECODED_AT_ONCE_BYTES = 64 << 10
DECODED_BYTES = 64 << 20
#: Damaged records of a metadata partition that get a line in the log each.
MOST_DAMAGE_LINES = 20
#: An event is tried again after this time where the leader has just changed, and the wait without news.
RETRY_S = 0.1
IDLE_S = 0.5
FAILED_S = 1.0
#: From one snapshot of a metadata partition to the next, if it has changed.
SNAPSHOT_INTERVAL_S = 60.0
#: Kafka's defaults of the keys below `remote.log.metadata.manager.impl.prefix`.
_DEFAULTS = {
    "remote.log.metadata.topic.num.partitions": 50,
    "remote.log.metadata.topic.replication.factor": 3,
    "remote.log.metadata.topic.min.isr": 2,
    "remote.log.metadata.topic.retention.ms": -1,
    "remote.log.metadata.consume.wait.ms": 120_000,
}
_RETRIED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class PublishFailed(Exception):
    """The event is not known to be written, or was not read back in time."""


class _Part:
    """A metadata partition. `wanted` are the partitions whose events are read."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = MetadataPartition(number)
        self.wanted: dict[TopicIdPartition, None] = {}
        self.is_loaded = False
        #: Where the partition begins and ends is to be found out: nothing is ready until then.
        self.needs_ends = True
        #: While a snapshot is written, nothing changes.
        self.lock = asyncio.Lock()
        self.saved_at = 0
        self.next_snapshot_s = 0.0
        self.next_try_s = 0.0
        #: The end of the metadata partition, when it was last asked for.
        self.end_offset = 0

    def apply_wanted(self) -> None:
        """Follows what is wanted, and nothing else. The ends are found out again for what is new."""
        for known in [one for one in self.state.followed if one not in self.wanted]:
            self.state.unfollow(known)
        for one in self.wanted:
            if one not in self.state.followed:
                self.state.follow(one, 0)
                self.needs_ends = True


class MetadataLog:
    """The events of this broker's tiered partitions. Calls are for the loop."""

    def __init__(
        self,
        node: Node,
        partitions: Partitions,
        leaders: Leaders,
        peers: Lazy[Peers],
        topic_creation: TopicCreation,
    ) -> None:
        self._config = node.config
        self._clock = node.clock
        self._metadata = node.metadata
        self._disk = node.pools.disk
        self._background = node.background
        self._partitions = partitions
        self._leaders = leaders
        self._peers = peers
        self._topic_creation = topic_creation
        self._parts: dict[int, _Part] = {}
        self._wanted: dict[TopicIdPartition, None] = {}
        self._topic_id = b""
        #: The sources' tasks, by the leading broker.
        self._tasks: dict[int, asyncio.Task[None]] = {}
        #: Events of this broker that it has not read back, by their bytes.
        self._published: dict[bytes, asyncio.Future[Applied]] = {}
        #: The event of each source: set when there may be something to read.
        self._alarms: dict[int, asyncio.Event] = {}
        #: Those who wait for a partition to be ready: all of them look again once something was read.
        self._waiting: list[asyncio.Future[None]] = []
        self._is_creating = False
        self._is_stopped = False

    # Followed partitions.

    def follow(self, partition: TopicIdPartition) -> None:
        self._wanted[partition] = None
        self.refresh_sources()

    def unfollow(self, partition: TopicIdPartition) -> None:
        self._wanted.pop(partition, None)
        for part in self._parts.values():
            if part.wanted.pop(partition, ...) is None and not part.lock.locked():
                part.apply_wanted()

    def reread_end(self, partition: TopicIdPartition) -> None:
        """Takes the partition as not ready until the present end is read: its former leader may have written events."""
        part = self._part_of(partition)
        if part is not None:
            part.needs_ends = True
            self._wake()

    def followed(self, partition: TopicIdPartition) -> Followed | None:
        """Returns the state of a ready partition; None before."""
        part = self._part_of(partition)
        if part is None or part.needs_ends or not part.is_loaded:
            return None
        found = part.state.followed.get(partition)
        return found if found is not None and found.is_ready else None

    async def ready(self, partition: TopicIdPartition) -> Followed:
        """Waits until a followed partition is ready, and returns its state."""
        while (found := self.followed(partition)) is None:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return found

    def _look_again(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def deletions(self) -> list[tuple[TopicIdPartition, Deletion, bool]]:
        """Returns the deletions of partitions that have begun and not ended, and whether this broker leads their metadata
        partition.
        """
        topic = self._metadata.image.topic(METADATA_TOPIC)
        if topic is None or topic.id != self._topic_id:
            return []
        return [
            (partition, deletion, topic.partitions[part.number].leader == self._config.node_id)
            for part in self._parts.values()
            if part.is_loaded and not part.needs_ends and part.state.deletions_offset >= part.end_offset
            for partition, deletion in part.state.deletions.items()
        ]

    def stored(self) -> Iterator[tuple[bytes, set[TopicIdPartition]]]:
        """Returns, by topic ids, the partitions of which the store may have something, in the metadata partitions that this
        broker leads.
        """
        topic = self._metadata.image.topic(METADATA_TOPIC)
        if topic is None or topic.id != self._topic_id:
            return
        for part in self._parts.values():
            is_read = part.is_loaded and not part.needs_ends and part.state.deletions_offset >= part.end_offset
            leads = topic.partitions[part.number].leader == self._config.node_id
            if is_read and leads:
                yield from part.state.stored.items()

    def _part_of(self, partition: TopicIdPartition) -> _Part | None:
        count = self._count()
        return self._parts.get(metadata_partition(partition, count)) if count else None

    def _count(self) -> int:
        topic = self._metadata.image.topic(METADATA_TOPIC)
        return len(topic.partitions) if topic is not None else 0

    def refresh_sources(self) -> None:
        """Has a task for each broker that leads a metadata partition that is followed. This broker also reads all metadata
        partitions that it leads: they may have deletions to resume. Called after each image, too.
        """
        topic = self._metadata.image.topic(METADATA_TOPIC)
        if self._is_stopped:
            return
        if topic is None:
            if self._wanted:
                self._create_topic()
            return
        if topic.id != self._topic_id:
            self._topic_id, self._parts = topic.id, {}
        for wanted in self._wanted:
            number = metadata_partition(wanted, len(topic.partitions))
            part = self._parts.get(number)
            if part is None:
                part = self._parts[number] = _Part(number)
            if wanted not in part.wanted:
                part.wanted[wanted] = None
                if part.is_loaded and not part.lock.locked():
                    part.apply_wanted()
        for number in range(len(topic.partitions)):
            if topic.partitions[number].leader == self._config.node_id and number not in self._parts:
                self._parts[number] = _Part(number)
        for number in self._parts:
            leader = topic.partitions[number].leader
            if leader >= 0 and leader not in self._tasks:
                self._tasks[leader] = asyncio.create_task(self._read_from(leader), name=f"remote log metadata {leader}")
        self._wake()

    def _wake(self) -> None:
        for alarm in self._alarms.values():
            alarm.set()

    def _create_topic(self) -> None:
        if self._is_creating:
            return
        self._is_creating = True
        is_alone = self._config.is_alone
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(self.setting("remote.log.metadata.topic.retention.ms")),
            "remote.storage.enable": "false",
            "min.insync.replicas": str(1 if is_alone else self.setting("remote.log.metadata.topic.min.isr")),
        }
        topic = CreatableTopic(
            name=METADATA_TOPIC,
            num_partitions=self.setting("remote.log.metadata.topic.num.partitions"),
            replication_factor=1 if is_alone else self.setting("remote.log.metadata.topic.replication.factor"),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        self._topic_creation.create(topic, self._created)

    def _created(self) -> None:
        def again() -> None:
            self._is_creating = False
            self.refresh_sources()

        asyncio.get_running_loop().call_later(FAILED_S if self._count() == 0 else 0, again)

    def setting(self, name: str) -> int:
        """Returns the number of a key below `remote.log.metadata.manager.impl.prefix`."""
        prefix = self._config.get("remote.log.metadata.manager.impl.prefix")
        return int(self._config.values.texts.get(prefix + name, _DEFAULTS[name]))

    # Reading.

    async def _read_from(self, broker: int) -> None:
        """Reads the metadata partitions that a broker leads, as long as this broker runs."""
        alarm = self._alarms[broker] = asyncio.Event()
        watcher = _Alarm(alarm)
        while not self._is_stopped:
            alarm.clear()
            try:
                parts = await self._prepared(broker)
                if broker == self._config.node_id:
                    is_idle = not await self._read_here(parts, watcher)
                else:
                    is_idle = not parts or not await self._read_there(broker, parts)
                await self._save(parts)
            except Exception as failure:
                self._background.failed(TASK, failure)
                await asyncio.sleep(FAILED_S)
            else:
                self._background.succeeded(TASK)
                if is_idle:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(IDLE_S):
                            await alarm.wait()

    async def _prepared(self, broker: int) -> list[_Part]:
        topic = self._metadata.image.topic(METADATA_TOPIC)
        if topic is None or topic.id != self._topic_id:
            return []
        now_s = asyncio.get_running_loop().time()
        led = [one for one in self._parts.values() if topic.partitions[one.number].leader == broker]
        for part in led:
            if not part.is_loaded:
                await self._load(part, topic.id)
        is_here = broker == self._config.node_id
        return [part for part in led if (is_here or part.state.followed) and part.next_try_s <= now_s]

    async def _load(self, part: _Part, topic_id: bytes) -> None:
        try:
            found = await self._disk.run(read_snapshot, self._snapshot_path(part.number), topic_id, part.number)
        except (CorruptSnapshot, OSError) as error:
            log.warning("%s: %s; the topic is read from its start", self._snapshot_path(part.number), error)
            found = None
        if found is not None:
            part.state, part.saved_at = found, found.fetch_offset
        part.is_loaded = True
        part.apply_wanted()

    def _snapshot_path(self, number: int) -> str:
        return f"{self._config.metadata_log_dir}/odradek-remote-log-metadata-{number}.snapshot"

    async def _read_here(self, parts: list[_Part], watcher: _Alarm) -> bool:
        """Reads what the logs have. Returns whether there was something."""
        has_read = False
        for part in parts:
            hosted = self._partitions.get((METADATA_TOPIC, part.number))
            if hosted is None or not hosted.is_leader or hosted.offline:
                continue
            hosted.watchers[watcher] = None
            if part.needs_ends:
                if hosted.role.leader_epoch_start_offset > hosted.high_watermark:
                    continue
                self._begin(part, hosted.log_start_offset, hosted.log_end_offset)
            if part.state.damaged_records:
                part.state.forget_damage(hosted.log_start_offset, hosted.log_end_offset)
            offset = part.state.fetch_offset
            if offset < hosted.high_watermark:
                try:
                    data = await self._read_log(hosted, offset)
                except OffsetOutOfRange:
                    part.needs_ends = True
                    continue
                if part.state.fetch_offset == offset:  # else a new one is to be read from the start
                    await self._consume(part, offset, data)
                has_read = True
        return has_read

    async def _read_log(self, hosted: HostedPartition, offset: int) -> bytes:
        high_watermark, source = hosted.high_watermark, hosted.open_log()
        try:
            found = source.read(offset, FETCH_BYTES, high_watermark, pread=pread_nowait)
        except BlockingIOError:
            found = await self._disk.run(source.read, offset, FETCH_BYTES, high_watermark)
        data = found.bytes_nowait()
        return bytes(await self._disk.run(found.bytes) if data is None else data)

    async def _read_there(self, broker: int, parts: list[_Part]) -> bool:
        endpoint = self._leaders.broker_endpoint(broker)
        if endpoint is None:
            return False
        without_ends = [part for part in parts if part.needs_ends]
        if without_ends:
            await self._ask_ends(endpoint, without_ends)
        asked = {part.number: (part, part.state.fetch_offset) for part in parts if not part.needs_ends}
        if not asked:
            return False
        wanted = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            for number, (_, offset) in asked.items()
        ]
        topics = [FetchTopic(topic=METADATA_TOPIC, topic_id=self._topic_id, partitions=wanted)]
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=4 * FETCH_BYTES, topics=topics)
        found = await self._ask(endpoint, request, _fetched, FETCH_WAIT_MS + TIMEOUT_MS)
        for number, error, data, log_start in found or ():
            part, offset = asked[number]
            if part.state.damaged_records and not error:
                part.state.forget_damage(log_start, max(offset, log_start))
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                part.needs_ends = True
            elif error:
                part.next_try_s = asyncio.get_running_loop().time() + RETRY_S
            elif data and part.state.fetch_offset == offset:
                await self._consume(part, offset, data)
        # A new leader, or a partition that is new: the request is made again at once.
        return found is not None

    async def _ask_ends(self, endpoint: Endpoint, parts: list[_Part]) -> None:
        ends: list[dict[int, int]] = []
        for timestamp in (EARLIEST, LATEST):
            asked = [ListOffsetsPartition(part.number, -1, timestamp) for part in parts]
            request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(METADATA_TOPIC, asked)])
            ends.append(await self._ask(endpoint, request, _listed, TIMEOUT_MS) or {})
        for part in parts:
            if all(part.number in found for found in ends):
                self._begin(part, ends[0][part.number], ends[1][part.number])
            else:
                part.next_try_s = asyncio.get_running_loop().time() + RETRY_S

    async def _ask(
        self, endpoint: Endpoint, request: Request[ResponseT], take: Callable[[ResponseT], T], timeout_ms: int
    ) -> T | None:
        """Sends a request; returns what `take` makes of the response, or None without one."""
        answered: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

        def reply(response: ResponseT | None) -> None:
            if not answered.done():
                answered.set_result(None if response is None else take(response))

        self._peers().send(endpoint, request, reply, timeout_ms=timeout_ms, purpose=PURPOSE)
        return await answered

    def _begin(self, part: _Part, start: int, end: int) -> None:
        part.needs_ends, part.end_offset = False, end
        part.state.begin_at(start, end)
        self._look_again()

    async def _consume(self, part: _Part, offset: int, data: bytes) -> None:
        """Applies the records from `offset` on."""
        count = 0
        async with part.lock:
            for position, header in iter_headers(data):
                if header.next_offset <= offset or position + header.size > len(data):
                    continue
                check_crc(data, position, header)
                for record in await self._records_of(part, data, position, header):
                    count += 1
                    if count % EVENTS_AT_A_TIME == 0:
                        await asyncio.sleep(0)
                    self._apply(part, record)
                part.state.advance(header.next_offset)
        part.apply_wanted()
        self._look_again()

    async def _records_of(self, part: _Part, data: bytes, position: int, header: BatchHeader) -> list[Record]:
        """Returns the records of a batch; none of one that does not parse."""
        if header.is_control:
            return []
        try:
            if header.compression or header.size > DECODED_AT_ONCE_BYTES:
                return await self._disk.run(partial(decode_batch, data, position, header, DECODED_BYTES))
            return decode_batch(data, position, header)
        except BatchError as error:
            part.state.skip(header.base_offset, str(error))
            self._log_damage(part)
            return []

    def _log_damage(self, part: _Part) -> None:
        if part.state.damaged_records <= MOST_DAMAGE_LINES:
            damaged = part.state.damaged[-1]
            log.error(
                "%s-%d: the record at offset %d cannot be read, and is skipped: %s. `odradek tier repair` removes it",
                METADATA_TOPIC, part.number, damaged.offset, damaged.reason,
            )  # fmt: skip

    def _apply(self, part: _Part, record: Record) -> None:
        before = part.state.damaged_records
        applied = part.state.consume(record.offset, record.value)
        if part.state.damaged_records > before:
            self._log_damage(part)
        if self._published and record.value is not None:
            waiting = self._published.get(bytes(record.value))
            if waiting is not None and not waiting.done() and applied is not None:
                waiting.set_result(applied)

    async def _save(self, parts: Iterable[_Part], *, at_once: bool = False) -> None:
        """Writes snapshots that are due, on a thread; nothing is consumed meanwhile."""
        now_s = asyncio.get_running_loop().time()
        for part in parts:
            state = part.state
            is_due = at_once or part.next_snapshot_s <= now_s
            if not is_due or not state.may_be_saved or state.fetch_offset == part.saved_at or part.needs_ends:
                continue
            part.next_snapshot_s = now_s + SNAPSHOT_INTERVAL_S
            async with part.lock:
                offset = state.fetch_offset
                try:
                    await self._disk.run(write_snapshot, self._snapshot_path(part.number), self._topic_id, state)
                    part.saved_at = offset
                except OSError as error:
                    log.warning("%s was not written: %s", self._snapshot_path(part.number), error)
            part.apply_wanted()

    # Writing.

    async def publish(self, event: RemoteLogMetadata) -> Applied:
        """Writes an event with acks=all, and waits until it is read back. Raises PublishFailed."""
        (applied,) = await self.publish_all([event])
        return applied

    async def publish_all(self, events: Sequence[RemoteLogMetadata]) -> list[Applied]:
        """Writes events of one partition in one batch, and waits until they are read back. Raises PublishFailed."""
        if not events:
            return []
        values, partition = [encode_event(one) for one in events], events[0].partition
        loop = asyncio.get_running_loop()
        waiting = []
        for value in values:
            found = self._published.get(value)
            if found is None:
                found = self._published[value] = loop.create_future()
            waiting.append(found)
        try:
            await self._write(partition, values)
            async with asyncio.timeout(self.setting("remote.log.metadata.consume.wait.ms") / 1000):
                return [await asyncio.shield(one) for one in waiting]
        except TimeoutError:
            raise PublishFailed(f"an event of {partition} was not read back") from None
        finally:
            for value in values:
                self._published.pop(value, None)

    async def _write(self, partition: TopicIdPartition, values: list[bytes]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT_MS / 1000
        error: int | None = None
        while not self._is_stopped and loop.time() < deadline:
            count = self._count()
            if count:
                error = await self._write_once(metadata_partition(partition, count), values)
                if error == ErrorCode.NONE:
                    return
                if error is not None and error not in _RETRIED:
                    break
            await asyncio.sleep(RETRY_S)
        reason = "no response" if error is None else ErrorCode(error).name
        raise PublishFailed(f"an event of {partition} was not written: {reason}")

    async def _write_once(self, number: int, values: list[bytes]) -> int | None:
        """Returns the error; None without a response."""
        now_ms = self._clock.now_ms()
        records = encode_batch([Record(number, now_ms, None, value) for number, value in enumerate(values)])
        topic = self._metadata.image.topic(METADATA_TOPIC)
        endpoint = self._leaders.other_leader(METADATA_TOPIC, number)
        if endpoint is None or topic is None:
            return await self._append(number, records)
        data = [PartitionProduceData(index=number, records=records)]
        produced = TopicProduceData(name=METADATA_TOPIC, topic_id=topic.id, partition_data=data)
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=TIMEOUT_MS, topic_data=[produced])
        answered: int | None = await self._ask(endpoint, request, _produced, TIMEOUT_MS)
        return answered

    async def _append(self, number: int, records: bytes) -> int:
        hosted = self._partitions.get((METADATA_TOPIC, number))
        if hosted is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not hosted.role.has_enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        result = hosted.append_own(records, self._clock.now_ms())
        if result.error:
            return result.error
        committed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        hosted.when_committed(result.end_offset, partial(_set, committed))
        return await asyncio.wait_for(committed, TIMEOUT_MS / 1000)

    # The end.

    async def stop(self) -> None:
        self._is_stopped = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiting in self._published.values():
            if not waiting.done():
                waiting.set_exception(PublishFailed("the broker stops"))
                waiting.exception()  # the one who published it may have gone
        await self._save([part for part in self._parts.values() if part.is_loaded], at_once=True)

    def damaged_records(self) -> int:
        """Returns the number of records that were skipped, and that the topic still has."""
        return sum(part.state.damaged_records for part in self._parts.values())


class _Alarm:
    """Waits for committed records of the metadata partitions that this broker leads."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def on_bytes_available(self, size: int) -> None:
        self._event.set()

    def on_state_changed(self) -> None:
        self._event.set()


def _set(future: asyncio.Future[int], error: int) -> None:
    if not future.done():
        future.set_result(error)


def _fetched(response: FetchResponse) -> list[tuple[int, int, bytes, int]] | None:
    """Returns (partition, error, records, log start offset). Views of records hold no longer than the callback."""
    if response.error_code:
        return None
    return [
        (one.partition_index, one.error_code, bytes(one.records or b""), one.log_start_offset)
        for topic in response.responses
        for one in topic.partitions
    ]


def _listed(response: ListOffsetsResponse) -> dict[int, int]:
    found = [one for topic in response.topics for one in topic.partitions]
    return {one.partition_index: one.offset for one in found if not one.error_code}


def _produced(response: ProduceResponse) -> int:
    (topic,) = response.responses
    return topic.partition_responses[0].error_code
