"""Drives the controller on a quorum of one: its log, its commits, its snapshots.

A request is decided at once, its records are appended and replayed, and then it waits. All that was appended in one turn of
the event loop shares one flush, which a thread does; what the flush brought to the disk is committed, since a majority
of one has it. Then it is published here, and then the replies go out, in the order of the requests: a client that has its
answer finds what it asked for, and after a crash finds it again. Requests that come during a flush share the next one.

Reads wait like the rest: until everything that the decision saw is committed. A quorum of one has nobody to tell that it is
alive, so it writes no NoOpRecords (`metadata.max.idle.interval.ms`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from ..metadata.delta import MetadataDelta
from ..metadata.image import EMPTY_IMAGE, MetadataImage
from ..metadata.transactions import MetadataTransactions
from ..protocol.errors import ErrorCode
from ..protocol.schema import Message
from ..replication.controller.controller import Controller, refuse
from ..replication.controller.result import RefusedRequest
from ..storage.files import LogDirectoryFailure
from .cordoning import CORDONED_KEY
from .quorum_log import QuorumLog
from .quorum_snapshots import write_image_snapshot
from .quorum_start import broker_heartbeat, take_over

if TYPE_CHECKING:
    from ..storage.directory import LogDirectory
    from .broker import BrokerServer
    from .listener import Endpoint
    from .publisher import Publisher

log = logging.getLogger("odradek.quorum")

#: Takes the response of the API that was asked.
Reply = Callable[[Any], None]


class _Appended(NamedTuple):
    """The records of one decision, which are in the log, until they are committed."""

    end_offset: int
    records: Sequence[Message]
    append_timestamp_ms: int


class _Waiting(NamedTuple):
    """A reply, until everything below `offset` is published."""

    offset: int
    request: Message
    reply: Reply
    response: Message


class QuorumDriver:
    """The face of the controller for the rest of the broker, see docs/architecture.md."""

    def __init__(self, broker: BrokerServer, publisher: Publisher) -> None:
        self._broker = broker
        self._publisher = publisher
        #: The epoch of this leader; it rises with each start.
        self.epoch = 0
        #: Below it everything is committed and published.
        self.high_watermark = 0
        #: Of this broker's registration: what shows that a request comes from this incarnation of it.
        self.broker_epoch = -1
        #: Called when another node leads the quorum, or none.
        self.on_leader_changed: list[Callable[[], None]] = []
        self._published: MetadataImage = EMPTY_IMAGE
        self._transactions = MetadataTransactions()
        self._appended: deque[_Appended] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._flushing = ThreadPoolExecutor(1, "metadata-flush")
        self._committing: asyncio.Task[None] | None = None
        self._snapshotting: asyncio.Task[None] | None = None
        self._snapshot_due: asyncio.TimerHandle | None = None
        self._is_active = False
        self._publishes = True
        self._controller: Controller | None = None
        self._log: QuorumLog | None = None

    @property
    def controller(self) -> Controller:
        assert self._controller is not None, "the controller has not been started"
        return self._controller

    @property
    def is_active(self) -> bool:
        return self._is_active

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the active controller listens to others; this one is it."""
        return None

    @property
    def quorum_log(self) -> QuorumLog:
        assert self._log is not None, "the controller has not been started"
        return self._log

    @property
    def kraft_version(self) -> int:
        """What the metadata log may hold: with 1 its voters stand in it (KIP-853)."""
        return self.quorum_log.quorum.kraft_version

    async def start(self, directories: Sequence[LogDirectory]) -> None:
        """Reads the metadata, takes the lead, registers this broker, and publishes what comes of it.

        `directories`: the log directories of the broker, open and formatted. Raises LogDirectoryFailure, MetadataLost,
        InvalidQuorum, OSError, and what damaged batches raise.
        """
        taken = take_over(self._broker, directories)
        self._log, self._controller, self.epoch = taken.log, taken.controller, taken.epoch
        self.broker_epoch = taken.broker_epoch
        # Nobody is served yet, so the first flush may hold up the loop.
        self._log.flush(self._broker.now_ms())
        self.high_watermark = self._controller.next_offset
        self._published = self._controller.image
        self._publisher.publish(taken.delta, self._published)
        self._is_active = True
        self._broker.config.subscribe(self._config_changed)
        self._arm_snapshots()

    async def stop(self) -> None:
        """Hands over what this broker leads (to nobody, alone), fences it and closes the log. Replies go out before."""
        if self._controller is not None and self._is_active:
            # What follows concerns whoever opens the log next; here partitions close anyway.
            self._publishes = False
            try:
                self._leave()
            except LogDirectoryFailure as failure:
                self._fail(failure)
            await self.settled()
        self._is_active = False
        if self._snapshot_due is not None:
            self._snapshot_due.cancel()
        if self._snapshotting is not None:
            await self._snapshotting
        if self._log is not None:
            try:
                self._log.close(self._broker.now_ms())
            except LogDirectoryFailure as failure:
                log.error("closing the metadata log: %s", failure)
        self._flushing.shutdown()

    def _leave(self) -> None:
        for _ in range(2):  # the first begins the shutdown, the second finds nothing led and ends it
            request = broker_heartbeat(self._broker, self.broker_epoch, self.controller, want_shut_down=True)
            result = self.controller.handle(request, 1)
            self._append(result.records, result.atomic)

    async def settled(self) -> None:
        """Everything that was appended is committed; or the disk has failed."""
        while self._committing is not None:
            await asyncio.shield(self._committing)

    def _config_changed(self, names: frozenset[str]) -> None:
        """The controller places replicas by which directories are cordoned. A change is told while it is being published."""
        if CORDONED_KEY in names and self._is_active:
            asyncio.get_running_loop().call_soon(self._send_heartbeat)

    def _send_heartbeat(self) -> None:
        heartbeat = broker_heartbeat(self._broker, self.broker_epoch, self.controller)
        self.submit(heartbeat, _HEARTBEAT_VERSION, lambda response: None)

    # ---- requests

    def submit(self, request: Message, version: int, reply: Reply, *, principal: str | None = None) -> None:
        """Has the controller decide; `reply(response)` is called once, at once or later, from the event loop."""
        if not self._is_active:
            reply(refuse(request, RefusedRequest(ErrorCode.NOT_CONTROLLER)))
            return
        result = self.controller.handle(request, version)
        if result.records:
            try:
                self._append(result.records, result.atomic)
            except LogDirectoryFailure as failure:
                self._fail(failure)
                reply(refuse(request, RefusedRequest(ErrorCode.NOT_CONTROLLER)))
                return
        offset = self.controller.next_offset
        if offset <= self.high_watermark:
            reply(result.response)
        else:
            self._waiting.append(_Waiting(offset, request, reply, result.response))

    def _append(self, records: Sequence[Message], atomic: bool) -> None:
        if not records:
            return
        controller, now_ms = self.controller, self._broker.now_ms()
        metadata_version = controller.image.features.metadata_version
        self.quorum_log.append(records, self.epoch, now_ms, metadata_version, atomic)
        controller.replay(records, self.epoch, now_ms)
        assert self.quorum_log.end_offset == controller.next_offset, "the log and the controller count the same records"
        self._appended.append(_Appended(controller.next_offset, records, now_ms))
        if self._committing is None:
            # The task begins in the next turn of the loop: what else this turn brings is in the same flush.
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    # ---- commits

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self.quorum_log.end_offset > self.high_watermark:
                end_offset = self.quorum_log.end_offset
                flush = self.quorum_log.prepare_flush()
                if flush is not None:
                    await loop.run_in_executor(self._flushing, flush.run)
                    self.quorum_log.flushed(flush, self._broker.now_ms())
                self._committed(end_offset)
        except Exception as failure:
            self._fail(failure)
        finally:
            self._committing = None

    def _committed(self, end_offset: int) -> None:
        """Publishes everything below `end_offset` and lets the replies go that waited for it."""
        delta, timestamp_ms = MetadataDelta(self._published), self._published.last_append_timestamp_ms
        while self._appended and self._appended[0].end_offset <= end_offset:
            appended = self._appended.popleft()
            timestamp_ms = appended.append_timestamp_ms
            for record in appended.records:
                for effective in self._transactions.take(record):
                    delta.replay(effective)
        self._published = delta.apply(end_offset - 1, self.epoch, timestamp_ms)
        if self._publishes:
            self._publisher.publish(delta, self._published)
        self.high_watermark = end_offset
        while self._waiting and self._waiting[0].offset <= end_offset:
            waiting = self._waiting.popleft()
            self._answer(waiting.reply, waiting.response)
        if self.quorum_log.bytes_since_snapshot >= self._broker.config.get(_SNAPSHOT_BYTES):
            self._take_snapshot()

    def _answer(self, reply: Reply, response: Message) -> None:
        try:
            reply(response)
        except Exception:
            log.exception("a reply of the controller could not be given: %r", response)

    def _fail(self, failure: Exception) -> None:
        """Without its log a controller decides nothing: what waits is refused, and what comes; the broker cannot go on."""
        log.critical("the metadata log failed; nothing of the cluster can change any more", exc_info=failure)
        self._is_active = False
        if not self._broker.failed.done():
            self._broker.failed.set_result(failure)
        while self._waiting:
            waiting = self._waiting.popleft()
            self._answer(waiting.reply, refuse(waiting.request, RefusedRequest(ErrorCode.NOT_CONTROLLER)))

    # ---- snapshots

    def _arm_snapshots(self) -> None:
        interval_ms: int = self._broker.config.get(_SNAPSHOT_INTERVAL)
        if interval_ms > 0:
            self._snapshot_due = self._broker.call_at(self._broker.now_ms() + interval_ms, self._interval_is_over)

    def _interval_is_over(self) -> None:
        self._arm_snapshots()
        self._take_snapshot()

    def _take_snapshot(self) -> None:
        """Of what is published, unless one is being written or there is nothing new."""
        newest = self.quorum_log.snapshots[-1].end_offset if self.quorum_log.snapshots else 0
        if self._is_active and self._snapshotting is None and newest < self.high_watermark:
            self.quorum_log.bytes_since_snapshot = 0
            self._snapshotting = asyncio.get_running_loop().create_task(self._write_snapshot(self._published))

    async def _write_snapshot(self, image: MetadataImage) -> None:
        """A thread writes it: an image never changes, so nobody has to wait."""
        quorum_log, now_ms = self.quorum_log, self._broker.now_ms()
        try:
            snapshot = await asyncio.get_running_loop().run_in_executor(
                None, write_image_snapshot, quorum_log.directory, image, quorum_log.quorum, now_ms
            )
            quorum_log.add_snapshot(snapshot, now_ms)
        except (OSError, LogDirectoryFailure):
            log.exception("could not write a snapshot of the metadata; the log keeps it all")
        finally:
            self._snapshotting = None


_HEARTBEAT_VERSION = 2
_SNAPSHOT_BYTES = "metadata.log.max.record.bytes.between.snapshots"
_SNAPSHOT_INTERVAL = "metadata.log.max.snapshot.interval.ms"
