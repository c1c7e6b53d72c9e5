"""Drives the coordinator shard of one partition that this broker leads: of groups, or of transactions.

    load      reads the log from its start, in slices between which the event loop does other work
    submit    decides a request immediately; the decision is held until the turn ends
    turn      once in a turn of the event loop: appends the records decided in it, as one batch unless they are too many
    commit    sends the replies when the high watermark has reached the log's end: a reply without records may show
      earlier decisions

A shard that cannot write its decisions is ahead of its log. The driver then drops the shard with all waiting
requests and loads it again. When another broker becomes leader, the driver drops the shard without loading it
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ... import buggify
from ...coordinator.result import Record, Reply
from ...protocol.errors import ErrorCode
from ...protocol.records.batch import check_crc, iter_headers
from ...protocol.records.compression import Compression
from ...protocol.records.errors import BatchError, CorruptBatch
from ...protocol.schema import Message, Request
from ...storage.segments.damage import SegmentSuspected
from ..runtime.background_tasks import BackgroundTasks
from .open_requests import Client, OpenRequests, Pending
from .shard_batches import append_records, error_for_clients

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ...protocol.schema import ResponseCallback
    from ..partitions.hosted_partition import HostedPartition

log = logging.getLogger("odradek.groups")
#: The bytes to read and the records to replay in one turn of the event loop: some milliseconds of work.
LOAD_READ_BYTES = 128 * 1024
LOAD_REPLAY_RECORDS = 500
#: Delay between a shard's failure and its next loading.
RELOAD_DELAY_MS = 100
#: Delay between loadings while records are damaged. Healing from a replica usually takes less; without replicas more
#: frequent retries do not help.
DAMAGE_RELOAD_DELAY_MS = 1_000


class DrivenState(Protocol):
    """The state of a shard that its driver uses."""

    next_offset: int
    config: Any


class ShardOutput(Protocol):
    """The decisions of a shard since the last `take`."""

    @property
    def records(self) -> list[Record]: ...
    @property
    def replies(self) -> list[Any]: ...


class Shard(Protocol):
    """The state machine of one partition: of groups, of transactions, or of the states of share groups."""

    @property
    def state(self) -> DrivenState: ...
    def handle(self, message: Any, now: int) -> None: ...
    def deadline(self) -> int | None: ...
    def expire(self, now: int) -> None: ...
    def take(self) -> ShardOutput: ...


ShardT = TypeVar("ShardT", bound=Shard)


LoadedT_co = TypeVar("LoadedT_co", bound=Shard, covariant=True)


class Loader(Protocol[LoadedT_co]):
    """Makes a shard from the log of its partition."""

    record_count: int

    def feed(self, batches: Buffer) -> None: ...
    def replay_some(self, count: int) -> bool:
        """Replays so many records. Returns whether there are more."""

    def loaded(self, log_end_offset: int, now: int) -> LoadedT_co: ...


class ShardDriver(Generic[ShardT]):
    """Drives one shard. `clock`: milliseconds since 1970 that never go back. `commit_timeout_ms`: how long a reply may
    wait for replicas.
    """

    #: The encoder of records, and the error response for requests that the shard cannot handle.
    _encode: Callable[[Record], tuple[bytes, bytes | None]]
    _error_response: Callable[[Message, int, ErrorCode], Message]

    def __init__(
        self,
        partition: HostedPartition,
        config: Any,
        clock: Callable[[], int],
        commit_timeout_ms: int,
        compression: Compression = Compression.NONE,
    ) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self._config = config
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._compression = compression
        self._loop = asyncio.get_running_loop()
        self._shard: ShardT | None = None
        #: The error for requests while there is no shard.
        self._unavailable_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._loading: asyncio.Task[None] | None = None
        self._reload: asyncio.TimerHandle | None = None
        #: Takes failures to load the shard.
        self.background = BackgroundTasks()
        #: True if the last loading found damaged records.
        self._is_damaged = False
        #: Records decided in this turn and not appended yet.
        self._records: list[Record] = []
        self._replies: list[Reply] = []
        self._open = OpenRequests(self._error_response)
        self._turn_is_planned = False
        self._wakeup: asyncio.TimerHandle | None = None
        self._wakeup_ms = 0
        # Made once: whatever a timer renews may lie amid another request's memory, and would keep it from the system.
        self._on_wakeup = self._woken
        self._context = copy_context()

    @property
    def shard(self) -> ShardT | None:
        """The shard's state machine when it is loaded; for metrics and tests."""
        return self._shard

    def reconfigure(self, config: Any) -> None:
        """Applies a new configuration to later decisions. Earlier decisions and running timers stay."""
        self._config = config
        if self._shard is not None:
            self._shard.state.config = config

    # Loading.

    def load(self) -> None:
        """Loads the shard. An empty log is loaded when this returns, any other log later."""
        self._reload = None
        if self.partition.offline or not self.partition.is_leader:
            return  # the next image will report it
        self._unavailable_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if self.partition.log_start_offset == self.partition.log_end_offset:
            self._loaded(self._new_loader())
        else:
            self._loading = self._loop.create_task(self._load(), name=f"load {self.partition.name}")

    def _new_loader(self) -> Loader[ShardT]:
        """Returns the loader for the log."""
        raise NotImplementedError

    async def _load(self) -> None:
        started_ms = self._clock()
        loader = self._new_loader()
        try:
            if buggify.active is not None:
                await asyncio.sleep(buggify.active.delay_s(buggify.LATE_LOAD))
            offset = self.partition.log_start_offset
            while offset < self.partition.log_end_offset:
                offset = await self._feed(loader, offset)
                await asyncio.sleep(0)
            is_more = True
            while is_more:
                is_more = loader.replay_some(LOAD_REPLAY_RECORDS)
                await asyncio.sleep(0)
        except BatchError as damage:
            self._met_damage(damage)
            return
        except Exception as error:
            self.background.failed(self._load_task, error)
            self._unavailable_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._load_later()
            return
        finally:
            self._loading = None
        took_ms = self._clock() - started_ms
        # A broker may start with a hundred shards, most of them empty.
        level = logging.INFO if loader.record_count else logging.DEBUG
        log.log(level, "%s: %d records loaded in %d ms", self.partition.name, loader.record_count, took_ms)
        self._loaded(loader)

    def _met_damage(self, damage: BatchError) -> None:
        """Schedules another loading. The records may be healed from another replica; without them the state would be
        wrong.
        """
        if not self._is_damaged:
            log.error("%s cannot be loaded yet; loading is retried: %s", self.partition.name, damage)
        self._is_damaged = True
        self._unavailable_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.partition.on_damage(self.partition, damage)
        self._load_later()

    def _load_later(self) -> None:
        self._reload = self._loop.call_later(DAMAGE_RELOAD_DELAY_MS / 1000, self.load)

    @property
    def _load_task(self) -> str:
        return f"loading of {self.partition.name}"

    async def _feed(self, loader: Loader[ShardT], offset: int) -> int:
        """Feeds the batches from `offset` on to the loader. Returns the offset after them."""
        end = self.partition.log_end_offset
        found = self.partition.open_log().read(offset, LOAD_READ_BYTES)
        batches = found.bytes_nowait()
        if batches is None:
            batches = await self.partition.pools.disk.run(found.bytes)
        read = 0
        try:
            for position, header in iter_headers(batches):
                check_crc(batches, position, header)
                if header.next_offset > end:
                    raise CorruptBatch(f"a batch ends at offset {header.last_offset}, and the log at {end}")
                read = position + header.size
            if read < len(batches):
                # `iter_headers` takes the batch for one that goes on behind the bytes that were read.
                raise CorruptBatch(f"the batch at byte {read} of {found!r} has a wrong length")
            loader.feed(batches)
        except CorruptBatch as damage:
            # No CRC covers offsets and lengths: the loader finds batches that are out of order.
            raise SegmentSuspected(found.segment_base_offset, str(damage)) from damage
        return found.next_offset if found.size else self.partition.log_end_offset

    def _loaded(self, loader: Any) -> None:
        """Begins with the shard of a loader that has replayed the log."""
        self._is_damaged = False
        self.background.succeeded(self._load_task)
        shard: ShardT = loader.loaded(self.partition.log_end_offset, self._clock())
        self._shard = shard
        self._collect_output(shard, self._clock())

    # Requests.

    def submit(self, request: Request, version: int, client: Client, reply: ResponseCallback) -> None:
        shard = self._shard
        if shard is None:
            reply(self._error_response(request, version, self._unavailable_error))
            return
        pending = Pending(request, version, reply)
        self._open.add(pending)
        message = self._message(pending, version, client)
        now_ms = self._clock()
        try:
            shard.handle(message, now_ms)
        except Exception:
            self._failed_by_bug(f"{type(request).__name__} of {client.client_id}", [(pending, None)])
            return
        self._collect_output(shard, now_ms)

    def _message(self, pending: Pending, version: int, client: Client) -> Any:
        """Returns the shard's input for a request; `pending` is the token."""
        raise NotImplementedError

    def tell(self, message: Any) -> None:
        """Passes the shard, which must be loaded, a message that needs no reply."""
        shard, now_ms = self._shard, self._clock()
        assert shard is not None, "the shard is not loaded"
        try:
            shard.handle(message, now_ms)
        except Exception:
            self._failed_by_bug(type(message).__name__)
            return
        self._collect_output(shard, now_ms)

    def _collect_output(self, shard: ShardT, now_ms: int) -> None:
        """Collects the shard's decisions. A reply without pending records need not wait for the end of the turn."""
        output = shard.take()
        if output.records or self._records:
            self._records += output.records
            self._replies += output.replies
            self._plan_turn()
        elif output.replies:
            self._commit(output.replies)
        deadline = shard.deadline()
        if deadline is not None and (self._wakeup is None or deadline < self._wakeup_ms):
            self._wake_at(deadline, now_ms)

    def _wake_at(self, deadline: int, now_ms: int) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if deadline <= now_ms:
            self._plan_turn()
        else:
            self._wakeup_ms = deadline
            self._wakeup = self._loop.call_later((deadline - now_ms) / 1000, self._on_wakeup, context=self._context)

    def clock_moved(self) -> None:
        """Does what a clock that was set makes due, and sets the timer anew."""
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._woken()

    def _woken(self) -> None:
        self._wakeup = None
        self._turn()

    # Turns.

    def _plan_turn(self) -> None:
        if not self._turn_is_planned:
            self._turn_is_planned = True
            self._loop.call_soon(self._planned_turn)

    def _planned_turn(self) -> None:
        self._turn_is_planned = False
        self._turn()

    def _turn(self) -> None:
        shard = self._shard
        if shard is None:
            return
        now_ms = self._clock()
        records, replies, deadline = self._records, self._replies, shard.deadline()
        if records or replies:
            self._records, self._replies = [], []
        if deadline is not None and deadline <= now_ms:
            try:
                self._expire(shard, now_ms)
            except Exception:
                self._failed_by_bug("a timer")
                return
            output = shard.take()
            records = [*records, *output.records]
            replies = [*replies, *output.replies]
            deadline = shard.deadline()
        if records:
            try:
                error = self._append(shard, records, now_ms)
            except Exception:
                self._failed_by_bug("appending records", replies)
                return
            if error is not ErrorCode.NONE:
                self._fail(error)
                return
        if replies:
            self._commit(replies)
        if deadline is not None and (self._wakeup is None or deadline < self._wakeup_ms):
            self._wake_at(deadline, now_ms)

    def _expire(self, shard: ShardT, now_ms: int) -> None:
        shard.expire(now_ms)

    def _append(self, shard: ShardT, records: list[Record], now_ms: int) -> ErrorCode:
        error, end_offset = append_records(self.partition, records, self._encode, self._compression, now_ms)
        if error is not ErrorCode.NONE:
            return error
        ends_at = shard.state.next_offset
        if end_offset != ends_at:
            # Kafka's admin client may write to internal topics. Its records count, so the log is loaded again.
            log.error(
                "%s ends at offset %d, but its coordinator at offset %d; the coordinator loads it again",
                self.partition.name,
                end_offset,
                ends_at,
            )
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    def _commit(self, replies: list[Reply]) -> None:
        """Sends the replies once the log's current end is committed, which is often already the case."""
        partition = self.partition
        if partition.role.high_watermark >= partition.log.log_end_offset:
            self._respond(replies)
            return
        timeout = self._loop.call_later(self._commit_timeout_ms / 1000, self._give_up, replies)
        self.partition.when_committed(self.partition.log_end_offset, partial(self._committed, replies, timeout))

    def _committed(self, replies: list[Reply], timeout: asyncio.TimerHandle, error: int) -> None:
        timeout.cancel()
        if error:
            self._reject(replies, error_for_clients(ErrorCode(error)))
        else:
            self._respond(replies)

    def _give_up(self, replies: list[Reply]) -> None:
        """Fails the replies: the replicas did not catch up in time (offsets.commit.timeout.ms). The decisions stand."""
        self._reject(replies, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _respond(self, replies: list[Reply]) -> None:
        for token, response in replies:
            self._open.respond(token, response)

    def _reject(self, replies: list[Reply], error: ErrorCode) -> None:
        for token, _ in replies:
            self._open.reject(token, error)

    # Shutdown and failure.

    def resign(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Drops the shard and its unwritten decisions. Waiting requests fail with `error`."""
        self._unavailable_error = error
        self.background.forget(self._load_task)
        for handle in (self._loading, self._wakeup, self._reload):
            if handle is not None:
                handle.cancel()
        self._shard = self._loading = self._wakeup = self._reload = None
        self._records, self._replies = [], []
        self._open.reject_all(error)

    def _failed_by_bug(self, what: str, replies: Iterable[tuple[object, object]] = ()) -> None:
        """Drops the shard after a bug. Its state is unreliable, but its log is intact. Clients of other requests may
        retry.
        """
        log.exception("a bug: %s failed in %s", what, self.partition.name)
        for token, _ in replies:
            self._open.reject(token, ErrorCode.UNKNOWN_SERVER_ERROR)
        self._fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _fail(self, error: ErrorCode) -> None:
        log.error("%s failed (%s); the coordinator loads it again", self.partition.name, error.name)
        self.resign(error_for_clients(error))
        self._reload = self._loop.call_later(RELOAD_DELAY_MS / 1000, self.load)
