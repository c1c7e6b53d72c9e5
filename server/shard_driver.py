"""Drives the coordinator shard of one partition of `__consumer_offsets` that this broker leads.

    load      the log, from its start, in slices between which the loop does other things
    submit    a request is decided at once; what it decides is held until the turn ends
    turn      once per turn of the event loop: all records decided in it are appended as one batch
    commit    when the high watermark has passed them, the replies go out; those without records, at once

A shard that cannot write what it decided has gone ahead of its log: it is dropped whole, with whoever waits, and loaded
again. The same, without the loading, when the partition is led by another.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..coordinator.loading import ShardLoader
from ..coordinator.records import encode_record
from ..coordinator.refusals import refused
from ..coordinator.result import GroupRequest, Record, Reply
from ..coordinator.shard import TopicsDeleted
from ..protocol.errors import ErrorCode
from ..protocol.messages.join_group import JoinGroupRequest
from ..protocol.records.batch import NO_SEQUENCE
from ..protocol.records.compression import Compression
from ..protocol.records.errors import BatchError
from ..protocol.records.record import Record as BatchRecord
from ..protocol.records.record import encode_batch
from ..protocol.schema import Message
from ..storage.files import LogDirectoryFailure

if TYPE_CHECKING:
    from .hosted_partition import HostedPartition
    from .transaction_markers import Marker

log = logging.getLogger("odradek.groups")

#: Read and gone through in one turn of the loop: some milliseconds' work.
LOAD_READ_BYTES = 128 * 1024
LOAD_REPLAY_RECORDS = 500
#: Between a shard that failed and its next loading.
RELOAD_DELAY_MS = 100
#: What a record takes in a batch besides its key and value, at most.
RECORD_OVERHEAD_BYTES = 32


class Client(Protocol):
    """Who asks; a `Call` is one."""

    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...


class Pending:
    """A request that is not answered yet: the token that the shard holds."""

    __slots__ = ("reply", "request")

    def __init__(self, request: Message, reply: Callable[[Any], None]) -> None:
        self.request = request
        self.reply = reply


class ShardDriver:
    """`clock`: milliseconds since 1970 that never go back. `commit_timeout_ms`: what a reply may wait for replicas."""

    #: How records become bytes, and what a request is answered with that the shard cannot take.
    _encode: Callable[[Record], tuple[bytes, bytes | None]] = staticmethod(encode_record)
    _refused: Callable[[Message, ErrorCode], Message] = staticmethod(refused)

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
        self._shard: Any = None
        #: What requests are told while there is no shard.
        self._why_not = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._loading: asyncio.Task[None] | None = None
        self._reload: asyncio.TimerHandle | None = None
        #: Decided in this turn and not appended yet.
        self._records: list[Record] = []
        self._replies: list[Reply] = []
        #: Everybody who waits, for whatever.
        self._open: set[Pending] = set()
        self._turn_is_planned = False
        self._wakeup: asyncio.TimerHandle | None = None
        self._wakeup_ms = 0
        self._deletions: list[TopicsDeleted] = []

    @property
    def shard(self) -> Any:
        """The machine itself, when it is loaded; for metrics and tests."""
        return self._shard

    # Loading.

    def load(self) -> None:
        """An empty log is loaded when this returns, another one later."""
        self._reload = None
        if self.partition.offline or not self.partition.is_leader:
            return  # and the next image says so
        self._why_not = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if self.partition.log_start_offset == self.partition.log_end_offset:
            self._loaded(self._new_loader())
        else:
            self._loading = self._loop.create_task(self._load(), name=f"load {self.partition.name}")

    def _new_loader(self) -> Any:
        return ShardLoader(self._config, self.partition.name)

    async def _load(self) -> None:
        started_ms = self._clock()
        loader = self._new_loader()
        try:
            offset = self.partition.log_start_offset
            while offset < self.partition.log_end_offset:
                offset = await self._feed(loader, offset)
                await asyncio.sleep(0)
            is_more = True
            while is_more:
                is_more = loader.replay_some(LOAD_REPLAY_RECORDS)
                await asyncio.sleep(0)
        except Exception as error:
            is_bug = not isinstance(error, (BatchError, OSError, LogDirectoryFailure))
            log.error("%s cannot be loaded: %s", self.partition.name, error, exc_info=is_bug)
            self._why_not = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return
        finally:
            self._loading = None
        took_ms = self._clock() - started_ms
        log.info("%s: %d records loaded in %d ms", self.partition.name, loader.record_count, took_ms)
        self._loaded(loader)

    async def _feed(self, loader: Any, offset: int) -> int:
        """Goes through the batches from `offset` on, and returns the offset after them."""
        found = self.partition.log.read(offset, LOAD_READ_BYTES)
        batches = found.bytes_nowait()
        if batches is None:
            batches = await self._loop.run_in_executor(None, found.bytes)
        loader.feed(batches)
        return found.next_offset if found.size else self.partition.log_end_offset

    def _loaded(self, loader: Any) -> None:
        self._shard = loader.loaded(self.partition.log_end_offset, self._clock())
        deletions, self._deletions = self._deletions, []
        for deletion in deletions:
            self.topics_deleted(deletion)
        self._took(self._shard, self._clock())

    # Requests.

    def submit(self, request: Message, version: int, client: Client, reply: Callable[[Any], None]) -> None:
        shard = self._shard
        if shard is None:
            reply(self._refused(request, self._why_not))
            return
        pending = Pending(request, reply)
        self._open.add(pending)
        message = self._message(pending, version, client)
        now = self._clock()
        try:
            shard.handle(message, now)
        except Exception:
            self._failed_by_bug(f"{type(request).__name__} of {client.client_id}")
            return
        self._took(shard, now)

    def _message(self, pending: Pending, version: int, client: Client) -> Any:
        """What the shard is given for a request; `pending` is the token."""
        request = pending.request
        needs_id = type(request) is JoinGroupRequest and not request.member_id
        member_uuid = str(uuid.uuid4()) if needs_id else ""
        return GroupRequest(pending, request, version, client.client_id or "", client.client_host, member_uuid)

    def end_transaction(self, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a transaction's marker, after all that was decided before; `done` gets an error code, or 0."""
        self._turn()
        shard = self._shard
        if shard is None:
            done(self._why_not)
            return
        result = self.partition.end_transaction(marker, self._clock())
        if result.error:
            done(result.error)
            return
        shard.end_of_transaction(marker.producer_id, marker.committed)
        shard.state.next_offset += 1
        self.partition.when_committed(result.end_offset, done)

    def topics_deleted(self, message: TopicsDeleted) -> None:
        """While the log is loaded, it is kept for afterwards."""
        if self._shard is None:
            self._deletions.append(message)
        else:
            now = self._clock()
            self._shard.handle(message, now)
            self._took(self._shard, now)

    def _took(self, shard: Any, now: int) -> None:
        """Takes what the shard decided. A reply without records before it need not wait for the turn's end."""
        output = shard.take()
        if output.records or self._records:
            self._records += output.records
            self._replies += output.replies
            self._plan_turn()
        elif output.replies:
            self._commit(output.replies)
        deadline = shard.deadline()
        if deadline is not None and (self._wakeup is None or deadline < self._wakeup_ms):
            self._wake_at(deadline, now)

    def _wake_at(self, deadline: int, now: int) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if deadline <= now:
            self._plan_turn()
        else:
            self._wakeup_ms = deadline
            self._wakeup = self._loop.call_later((deadline - now) / 1000, self._woken)

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
        now = self._clock()
        try:
            shard.expire(now)
        except Exception:
            self._failed_by_bug("a timer")
            return
        output = shard.take()
        records, replies = self._records + output.records, self._replies + output.replies
        self._records, self._replies = [], []
        if records:
            error = self._append(shard, records, now)
            if error is not ErrorCode.NONE:
                self._fail(error)
                return
        if replies:
            self._commit(replies)
        deadline = shard.deadline()
        if deadline is not None and (self._wakeup is None or deadline < self._wakeup_ms):
            self._wake_at(deadline, now)

    def _append(self, shard: Any, records: list[Record], now: int) -> ErrorCode:
        """One batch, or more where one would be larger than the topic takes."""
        # Records and the producer (id and epoch) whose transaction they are of, -1 for most.
        batches: list[tuple[list[BatchRecord], tuple[int, int]]] = []
        limit, size = self.partition.rules.max_message_bytes, 0
        for record in records:
            key, value = self._encode(record)
            needs = len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
            if not batches or size + needs > limit or batches[-1][1] != record[3:]:
                batches.append(([], record[3:]))
                size = 0
            size += needs
            batch = batches[-1][0]
            batch.append(BatchRecord(len(batch), now, key, value))
        for batch, (producer_id, producer_epoch) in batches:
            encoded = encode_batch(
                batch,
                compression=self._compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=NO_SEQUENCE if producer_id < 0 else 0,
                transactional=producer_id >= 0,
            )
            result = self.partition.append_own(encoded, now)
            if result.error:
                return ErrorCode(result.error)
        ends_at = shard.state.next_offset
        if result.end_offset != ends_at:
            # Kafka's admin client may write to internal topics. What it wrote counts, so the log is read again.
            log.error("%s ends at %d, its shard at %d", self.partition.name, result.end_offset, ends_at)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    def _commit(self, replies: list[Reply]) -> None:
        """Replies, once everything that is in the log now is committed; it often is."""
        if self.partition.high_watermark >= self.partition.log_end_offset:
            self._answer(replies)
            return
        timeout = self._loop.call_later(self._commit_timeout_ms / 1000, self._give_up, replies)
        self.partition.when_committed(self.partition.log_end_offset, partial(self._committed, replies, timeout))

    def _committed(self, replies: list[Reply], timeout: asyncio.TimerHandle, error: int) -> None:
        timeout.cancel()
        if error:
            self._refuse(replies, _for_clients(ErrorCode(error)))
        else:
            self._answer(replies)

    def _give_up(self, replies: list[Reply]) -> None:
        """The replicas did not come after in time (offsets.commit.timeout.ms). What was decided stands."""
        self._refuse(replies, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _answer(self, replies: list[Reply]) -> None:
        for token, response in replies:
            assert isinstance(token, Pending)
            if token in self._open:
                self._open.remove(token)
                self._give(token, response)

    def _refuse(self, replies: list[Reply], error: ErrorCode) -> None:
        for token, _ in replies:
            assert isinstance(token, Pending)
            if token in self._open:
                self._open.remove(token)
                self._give(token, self._refused(token.request, error))

    # Ends.

    def resign(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Drops the shard, with all that it had not written. Whoever waits is told `error`."""
        self._why_not = error
        for handle in (self._loading, self._wakeup, self._reload):
            if handle is not None:
                handle.cancel()
        self._shard = self._loading = self._wakeup = self._reload = None
        self._records, self._replies = [], []
        waiting, self._open = self._open, set()
        for pending in waiting:
            self._give(pending, self._refused(pending.request, error))

    def _failed_by_bug(self, what: str) -> None:
        """The shard stopped half-way and is not to be trusted; its log is."""
        log.exception("a bug: %s failed in %s", what, self.partition.name)
        self._fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _fail(self, error: ErrorCode) -> None:
        log.error("%s failed (%s) and is loaded again", self.partition.name, error.name)
        self.resign(_for_clients(error))
        self._reload = self._loop.call_later(RELOAD_DELAY_MS / 1000, self.load)

    def _give(self, pending: Pending, response: Message) -> None:
        """A reply that fails must not keep the others from being given."""
        try:
            pending.reply(response)
        except Exception:
            log.exception("a bug: %s could not be answered", type(pending.request).__name__)
            with suppress(Exception):
                pending.reply(self._refused(pending.request, ErrorCode.UNKNOWN_SERVER_ERROR))


def _for_clients(error: ErrorCode) -> ErrorCode:
    """An error of the log, as clients of groups know it."""
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return error
    if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
