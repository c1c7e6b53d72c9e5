"""Turns the committed part of the metadata log into a delta and the next image.

A leader keeps the records of its own decisions until they are committed, and then replays them from memory. All other
records are read from the log once they are committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict

from ...metadata.delta import MetadataDelta
from ...metadata.image import EMPTY_IMAGE, MetadataImage
from ...metadata.records import MetadataTransactions, replace
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ...replication.controller.controller import Controller, error_response
from ...replication.controller.result import RequestError
from ..runtime.counters import RETRY_MS, BackgroundTasks
from ..runtime.halting import cause_of, unusable
from ..runtime.sliced_work import SlicedWork, Steps, without_gc
from .metadata_log import (
    Loaded,
    QuorumLog,
    QuorumVoters,
    SnapshotId,
    decode_batches,
    read_snapshot,
    write_image_snapshot,
)

if TYPE_CHECKING:
    from ...protocol.schema import ResponseCallback
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.thread_pools import ThreadPool


_READ_BYTES = 1 << 20


class Appended(NamedTuple):
    """The records of one decision that are in the log."""

    base_offset: int
    end_offset: int
    records: Sequence[Message]
    epoch: int
    append_timestamp_ms: int


def replay_decision(
    controller: Controller, records: Sequence[Message], epoch: int, now_ms: int, kraft_version: int
) -> None:
    """Replays the records in the controller before they are appended: a record that fails to replay here would fail on
    every node. After a failure the controller has the state it had before the call.
    """
    image, next_offset = controller.image, controller.next_offset
    try:
        controller.replay(records, epoch, now_ms)
    except Exception:
        for _ in controller.learn(image):
            pass
        controller.load(image, next_offset, kraft_version)
        raise


def snapshot_commits(quorum_log: QuorumLog, loaded: Loaded) -> Commits:
    """The commits of a node that has loaded its newest snapshot and does not yet know which part of the log is
    committed.
    """
    end_offset = quorum_log.snapshots[-1].end_offset if quorum_log.snapshots else 0
    image = loaded.delta.apply(end_offset - 1, loaded.last_epoch, loaded.last_append_timestamp_ms)
    return Commits(quorum_log, loaded.delta, image, loaded.transactions)


class Commits:
    """The image of everything committed below `offset`. `delta` leads from the last published image, `delta.image`, to
    `image()`. The parameter `image` is the state that `delta` initially leads to.
    """

    def __init__(
        self, quorum_log: QuorumLog, delta: MetadataDelta, image: MetadataImage, transactions: MetadataTransactions
    ) -> None:
        self._log = quorum_log
        self.delta = delta
        self.offset = image.offset + 1
        self._transactions = transactions
        self._epoch = image.epoch
        self._timestamp_ms = image.last_append_timestamp_ms
        self._appended: deque[Appended] = deque()
        #: A fetched snapshot that is not loaded yet. Nothing is replayed until it is loaded.
        self._snapshot: SnapshotId | None = None

    @property
    def is_replaced(self) -> bool:
        """True while a fetched snapshot that replaces everything below its end offset is waiting to be loaded. Earlier
        commits are then obsolete.
        """
        return self._snapshot is not None

    @property
    def in_transaction(self) -> bool:
        return self._transactions.is_open

    def appended(self, decision: Appended) -> None:
        self._appended.append(decision)

    def forget_appended(self) -> None:
        """Drops the decisions kept in memory: this node no longer leads, and the log decides which of them are
        committed.
        """
        self._appended.clear()

    def advance(self, end_offset: int) -> bool:
        """Replays all records committed below `end_offset`. Returns whether there were any."""
        before = self.offset
        while self.offset < end_offset and not self.is_replaced:
            decision = self._appended[0] if self._appended else None
            if decision is None or decision.base_offset > self.offset:
                if not self._read(min(end_offset, decision.base_offset) if decision is not None else end_offset):
                    break
            elif decision.end_offset <= end_offset:
                self._appended.popleft()
                self._replay(decision.records)
                self.offset, self._epoch = decision.end_offset, decision.epoch
                self._timestamp_ms = decision.append_timestamp_ms
            else:
                break
        return self.offset > before

    def _read(self, end_offset: int) -> bool:
        """Replays batches read from the log. Returns whether there was a whole batch."""
        found = self._log.log.read(self.offset, _READ_BYTES, end_offset)
        # The replica tracks the voter set. It learned of a change when the batch was appended.
        for header, records in decode_batches(found.bytes(), QuorumVoters()):
            self._replay(records[max(0, self.offset - header.base_offset) :])
            self.offset, self._epoch = header.next_offset, header.leader_epoch
            self._timestamp_ms = header.max_timestamp
        return found.size > 0

    def _replay(self, records: Sequence[Message]) -> None:
        for record in records:
            for effective in self._transactions.take(record):
                self.delta.replay(effective)

    def replaced(self, snapshot: SnapshotId) -> None:
        """Records that a fetched snapshot replaces the log. See `load`."""
        self._snapshot = snapshot
        self._appended.clear()

    def load(self) -> Steps[None]:
        """Loads the fetched snapshot in steps. If newer snapshots arrive meanwhile, the newest is loaded."""
        while (snapshot := self._snapshot) is not None:
            loaded = yield from read_snapshot(self._log.directory / snapshot.file_name)
            timestamp_ms = loaded.quorum.last_contained_timestamp_ms
            after = loaded.delta.apply(snapshot.end_offset - 1, snapshot.epoch, timestamp_ms)
            delta = loaded.delta
            if self.delta.image is not EMPTY_IMAGE:
                delta = MetadataDelta(self.delta.image)
                yield from replace(delta, after)
            if snapshot != self._snapshot:
                continue
            self.delta, self._transactions, self._snapshot = delta, MetadataTransactions(), None
            self.offset, self._epoch, self._timestamp_ms = snapshot.end_offset, snapshot.epoch, timestamp_ms

    def image(self) -> MetadataImage:
        return self.delta.apply(self.offset - 1, self._epoch, self._timestamp_ms)

    def take(self) -> tuple[MetadataDelta, MetadataImage]:
        """Returns what to publish: the delta since the last call and the image that it leads to."""
        delta, image = self.delta, self.image()
        self.delta = MetadataDelta(image)
        return delta, image


# Publishes the image of what the quorum has committed, one image at a time.
#
# While an image is being published, in slices, further commits are collected for the next one.


log = logging.getLogger("odradek.quorum")


class ImagePublisher(Protocol):
    """Makes all parts of the node follow an image. `delta` leads to it from the last one."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None: ...

    def steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]: ...


class ImagePublishing:
    """Replays commits and publishes them. `is_caught_up`: returns whether this node has what is known to be committed.

    - `published` is called after each image with the offset below which everything is published;
    - `loaded` when a fetched snapshot has replaced the commits;
    - `failed` when committed records cannot be read, or an image cannot be published.
    """

    def __init__(
        self,
        publisher: ImagePublisher,
        is_caught_up: Callable[[], bool],
        *,
        published: Callable[[int], None],
        loaded: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._on_published = published
        self._on_loaded = loaded
        self._on_failed = failed
        #: Done when this node has published everything that was committed when it joined the quorum.
        self.caught_up: asyncio.Future[None]
        #: Everything below this offset is published; -1 before the first image.
        self.end_offset = -1
        self._publisher = publisher
        self._is_caught_up = is_caught_up
        self._commits: Commits | None = None
        self._is_suspended = False
        self._unpublished = False
        self._publishing = SlicedWork(self._publishing_failed)
        self._loading = SlicedWork(lambda failure: self._on_failed(unusable("a snapshot", failure)))

    @property
    def commits(self) -> Commits:
        assert self._commits is not None, "the controller has not been started"
        return self._commits

    @property
    def committed_offset(self) -> int:
        """Everything below this offset is committed and replayed; 0 before the start."""
        return self._commits.offset if self._commits is not None else 0

    def begin(self, commits: Commits) -> None:
        """Begins with the state of the opened log. The first image is published with the next commits."""
        self.caught_up = asyncio.get_running_loop().create_future()
        self._commits, self._unpublished = commits, True

    def begin_with(self, commits: Commits, delta: MetadataDelta, image: MetadataImage) -> None:
        """Begins with a first image that is complete, and publishes it before this returns."""
        self.begin(commits)
        self._unpublished = False
        self._publisher.publish(delta, image)
        self._published(image)

    def advance(self, end_offset: int) -> None:
        """Replays everything below `end_offset`, which is committed, and publishes it."""
        try:
            if self.commits.advance(end_offset):
                self._unpublished = True
        except Exception as error:
            self._on_failed(unusable(f"the metadata log from offset {self.commits.offset} on", error))
            return
        self._publish()

    def load_replaced(self) -> None:
        """Loads a fetched snapshot that has replaced the commits, unless this has begun."""
        if self.commits.is_replaced and not self._loading.is_busy:
            self._loading.begin(without_gc(self.commits.load()), self._loaded)

    def _loaded(self) -> None:
        """Has a loaded snapshot published even if no records follow it."""
        self._unpublished = True
        self._on_loaded()

    def suspend(self) -> None:
        """Replays commits from now on without publishing them: the node stops."""
        self._is_suspended = True

    def stop(self) -> None:
        self._publishing.stop()
        self._loading.stop()

    def _publish(self) -> None:
        """Publishes what is committed, unless an earlier image is still being published."""
        if self._unpublished and not self._publishing.is_busy and self._may_publish():
            self._unpublished = False
            delta, image = self.commits.take()
            steps = iter(()) if self._is_suspended else self._publisher.steps(delta, image)
            self._publishing.begin(steps, lambda: self._published(image))

    def _may_publish(self) -> bool:
        """Returns whether the image is recent enough to publish. With an old image the broker would assume roles that
        other brokers have taken over.
        """
        if self.commits.is_replaced:
            return False
        return self.end_offset >= 0 or self._is_caught_up()

    def _published(self, image: MetadataImage) -> None:
        self.end_offset = image.offset + 1
        if not self.caught_up.done():
            self.caught_up.set_result(None)
        self._on_published(self.end_offset)
        self._publish()

    def _publishing_failed(self, failure: Exception) -> None:
        """Handles a failed publication. The publisher isolates failing subscribers; a failure here is a first image
        that cannot be served, a reason to halt, or a bug.
        """
        if not self.caught_up.done() or cause_of(failure) is not None:
            self._on_failed(unusable("an image", failure))
        else:
            log.error("a bug: an image was not published", exc_info=failure)
            self._unpublished = True


# Replies of the controller that wait until everything their decision saw is published.


#: Takes the response of the requested API.


class ClientFields(TypedDict, total=False):
    """The client whose request it is, for the authorizer to come; empty for requests of this node."""

    principal: str
    #: As `Call.client_host`.
    client_host: str
    client_id: str | None
    #: Whether it has logged in with a delegation token (KIP-48).
    is_token_authenticated: bool


class Asked(NamedTuple):
    """A request that is to be decided, as requirements see it."""

    request: Message
    version: int


class _Waiting(NamedTuple):
    """A reply that waits until everything below `offset` is published."""

    offset: int
    asked: Asked
    reply: ResponseCallback
    response: Message


class WaitingReplies:
    """The waiting replies in the order of their requests, which is the order of their offsets."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def add(self, offset: int, asked: Asked, reply: ResponseCallback, response: Message) -> None:
        self._waiting.append(_Waiting(offset, asked, reply, response))

    def published(self, end_offset: int) -> None:
        while self._waiting and self._waiting[0].offset <= end_offset:
            waiting = self._waiting.popleft()
            _respond(waiting.reply, waiting.response)

    def reject_all(self) -> None:
        """Fails all waiting requests: this node no longer decides, and does not know whether its decisions will be
        committed.
        """
        while self._waiting:
            waiting = self._waiting.popleft()
            _respond(waiting.reply, not_controller(*waiting.asked))


def not_controller(request: Message, version: int) -> Message:
    return error_response(request, version, RequestError(ErrorCode.NOT_CONTROLLER))


def failed_here(request: Message, version: int) -> Message:
    return error_response(request, version, RequestError(ErrorCode.UNKNOWN_SERVER_ERROR))


def _respond(reply: ResponseCallback, response: Message) -> None:
    try:
        reply(response)
    except Exception:
        log.exception("a reply of the controller could not be sent: %r", response)


# Decides when every node writes a snapshot of the metadata: by bytes since the last one, and by time (KIP-630).
#
# A node that finds damage in its log writes a snapshot immediately from its image in memory, and other nodes fetch
# it.


#: The task's name in logs, metrics and health.
TASK = "metadata snapshot"
_SNAPSHOT_BYTES = "metadata.log.max.record.bytes.between.snapshots"
_SNAPSHOT_INTERVAL = "metadata.log.max.snapshot.interval.ms"


class Snapshotting:
    """Writes snapshots. `committed()` returns the image of what is committed and the voters at that point. It returns
    None inside a metadata transaction, which a snapshot would contain only in part. `disk`: the threads that write.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        disk: ThreadPool,
        quorum_log: QuorumLog,
        committed: Callable[[], tuple[MetadataImage, QuorumVoters] | None],
        background: BackgroundTasks,
    ) -> None:
        self._config = config
        self._clock = clock
        self._disk = disk
        self._log = quorum_log
        self._committed = committed
        self._writing: asyncio.Task[None] | None = None
        self._background = background
        self._due: asyncio.TimerHandle | None = None
        #: Another attempt, after a failed one.
        self._retry: asyncio.TimerHandle | None = None
        self._is_stopped = False
        quorum_log.on_uncovered_damage = self._take

    def start(self) -> None:
        interval_ms: int = self._config.get(_SNAPSHOT_INTERVAL)
        if interval_ms > 0:
            self._due = self._clock.call_at(self._clock.now_ms() + interval_ms, self._interval_is_over)

    def _interval_is_over(self) -> None:
        self.start()
        self._take()

    def grown(self) -> None:
        """Checks the size limit after more records are committed."""
        if self._retry is None and self._log.bytes_since_snapshot >= self._config.get(_SNAPSHOT_BYTES):
            self._take()

    def _take(self) -> None:
        """Writes a snapshot unless one is being written or no new records are committed."""
        if self._writing is not None or self._is_stopped:
            return
        newest = self._log.snapshots[-1].end_offset if self._log.snapshots else 0
        committed = self._committed()
        if committed is not None and newest < committed[0].offset + 1:
            self._cancel_retry()
            covered_bytes, self._log.bytes_since_snapshot = self._log.bytes_since_snapshot, 0
            self._writing = asyncio.get_running_loop().create_task(self._write(*committed, covered_bytes))

    async def _write(self, image: MetadataImage, voters: QuorumVoters, covered_bytes: int) -> None:
        """Writes the snapshot in a thread. An image never changes, so no lock is needed."""
        quorum_log, now_ms = self._log, self._clock.now_ms()
        try:
            snapshot = await self._disk.run(write_image_snapshot, quorum_log.directory, image, voters, now_ms)
            quorum_log.add_snapshot(snapshot, now_ms)
            self._background.succeeded(TASK)
        except Exception as failure:  # the log keeps all records meanwhile
            self._background.failed(TASK, failure)
            quorum_log.bytes_since_snapshot += covered_bytes
            if not self._is_stopped:
                self._retry = self._clock.call_at(self._clock.now_ms() + RETRY_MS, self._take_again)
        finally:
            self._writing = None
        self.grown()  # by what came meanwhile

    def _take_again(self) -> None:
        self._retry = None
        self._take()

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    async def stop(self) -> None:
        self._is_stopped = True
        self._cancel_retry()
        if self._due is not None:
            self._due.cancel()
        if self._writing is not None:
            await self._writing
