"""The opening of the replicas that a start finds in the log directories.

A node among others opens all of them with its first image: other brokers lead meanwhile. A single node has no others, and
ten thousand logs take a second. So it opens the internal topics' replicas, whose coordinators start with the first image,
and `OPENED_AT_FIRST` of the others; then it serves, and a thread opens the rest. Until a replica is opened, requests for
it get NOT_LEADER_OR_FOLLOWER, which clients retry, and it is opened before those that no request has named.

Images that come meanwhile leave out the replicas that are not open: each takes its role from the newest image when it is.
So nothing is made in the place of one, and a topic that was deleted meanwhile is removed when its replica is opened.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import EMPTY_IMAGE
from ...metadata.internal_topics import INTERNAL_TOPICS
from ...protocol.uuids import ZERO_UUID
from ...storage.directory import DELETE_SUFFIX, FUTURE_SUFFIX
from ...storage.files.failures import LogDirectoryFailure
from ...storage.log.config import LogConfig
from ...storage.log.unopened import UnopenedLog
from ..runtime.gc_policy import GC_PAUSES
from .replicas_on_disk import gone_replicas, is_ours, rename_stray, report_opening

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage, TopicPartition
    from ...storage.directory import LogDirectory, ReplicaDirectory
    from ...storage.log.log import Log
    from ...storage.log.small_log import SeenReplica
    from ..runtime.clock import Clock
    from ..runtime.thread_pools import ThreadPool
    from .partitions import Partitions
    from .replica_opening import ReplicaOpening

log = logging.getLogger("odradek.partitions")

#: Replicas that are opened before a single node serves: some tenths of a second.
OPENED_AT_FIRST = 1000
#: A thread opens so many at a time, or as many as it can in this time: the loop then gives them their roles, 5 ms for all.
OPENED_AT_A_TIME = 200
LEAST_AT_A_TIME = 25
OPENING_S = 0.02
#: One thread opens the logs: two that share the interpreter take twice the CPU. While it has read one for so long, another
#: opens those behind it.
LARGE_LOG_S = 0.1
#: Nothing is collected while a start makes replicas, or for so long where their logs have to be read.
LONGEST_GC_PAUSE_S = 10
#: From one try to the next while no descriptor is left.
SHORTAGE_S = 0.5
#: The background task's name in logs, metrics and health.
TASK = "opening of replicas"

#: A topic that the metadata does not have.


class Found(NamedTuple):
    """A replica's folder."""

    directory: LogDirectory
    replica: ReplicaDirectory
    #: The topic and the partition.
    key: TopicPartition


class Opened(NamedTuple):
    """`log`: None for a folder that is not a replica of this broker."""

    found: Found
    log: Log | UnopenedLog | None


class Looks(NamedTuple):
    """Results of `LogDirectory.look_at`, and the time that they took."""

    seen: list[SeenReplica | None]
    took_s: float


class Batch(NamedTuple):
    """Folders to open, and what a thread sees of those that are `found`. `others`: those that were looked at before."""

    keys: list[TopicPartition]
    found: list[Found]
    others: list[Found]
    looks: asyncio.Future[Looks]


class _Progress:
    """The opened logs of a directory, for the broker's log."""

    def __init__(self, gone: list[TopicPartition]) -> None:
        self.gone = gone
        self.began_s = time.monotonic()
        self.opened = 0


class ReplicaLoading:
    """Opens replicas. `apply` gives a partition its role, or makes it, by an image. `is_alone` returns whether no other node
    takes part in the quorum.
    """

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        partitions: Partitions,
        opening: ReplicaOpening,
        disk: ThreadPool,
        broker_epoch: Callable[[], int],
        is_alone: Callable[[], bool],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._partitions = partitions
        self._opening = opening
        self._disk = disk
        self._broker_epoch = broker_epoch
        self._is_alone = is_alone
        self.apply: Callable[[MetadataImage, TopicPartition], object] = lambda image, key: None
        #: Whether the first image has come.
        self.has_begun = False
        #: The image that decides which replicas are this broker's, and the newest one that the partitions have followed.
        self._first = self._newest = EMPTY_IMAGE
        self._waiting: dict[TopicPartition, list[Found]] = {}
        #: Those of the waiting ones that requests have named.
        self._wanted: dict[TopicPartition, None] = {}
        #: Those of them that a thread opens.
        self._in_work: set[TopicPartition] = set()
        #: The size of the next batch: twice that of the one before, unless a look at its files took `LARGE_LOG_S`.
        self._at_a_time = LEAST_AT_A_TIME
        #: Those that a look among many was not enough for, and that a thread has not come to yet.
        self._looked_at: set[TopicPartition] = set()
        #: The batch after the one that is being opened: a thread looks at its files meanwhile.
        self._ahead: Batch | None = None
        #: The number of times that the first thread has opened some.
        self._batches = 0
        self._progress: dict[LogDirectory, _Progress] = {}
        self._task: asyncio.Task[None] | None = None
        #: The pause of the garbage collector, while many replicas are made.
        self._gc_pause = ExitStack()
        self._is_stopped = False
        #: Set while no image is being followed.
        self._may_apply = asyncio.Event()
        self._may_apply.set()

    # At the first image.

    def load(self, image: MetadataImage) -> Iterator[None]:
        """Opens the replicas that the log directories hold, or those that a single node needs at first."""
        self.has_begun = True
        self._first = self._newest = image
        at_first, later = self._found(image)
        for one in at_first:
            if not one.directory.is_online:
                continue
            try:
                self._take(self._open(one, self._config(one.key[0])))
            except LogDirectoryFailure as failure:
                self._partitions.directory_failed(failure)
            yield
        for one in later:
            self._waiting.setdefault(one.key, []).append(one)
        if self._waiting:
            log.info("%d logs are opened while the node serves", len(later))
            self._task = asyncio.get_running_loop().create_task(self._load_waiting())
        else:
            self._end()

    def _found(self, image: MetadataImage) -> tuple[list[Found], list[Found]]:
        """Returns the replicas to open at first, and those to open later."""
        internal: list[Found] = []
        others: list[Found] = []
        may_wait = self._is_alone() and len(image.cluster.brokers) == 1
        for directory in self._partitions.directories:
            for replica in self._list(directory, image):
                if replica.suffix == DELETE_SUFFIX:
                    directory.schedule_delete(replica.path, self._clock.now_ms())
                elif replica.suffix == FUTURE_SUFFIX:
                    may_wait = False  # moves are resumed when the replicas that move are there
                elif not replica.suffix:
                    key = replica.topic, replica.partition
                    (internal if key[0] in INTERNAL_TOPICS else others).append(Found(directory, replica, key))
        count = OPENED_AT_FIRST if may_wait else len(others)
        return internal + others[:count], others[count:]

    def _list(self, directory: LogDirectory, image: MetadataImage) -> list[ReplicaDirectory]:
        for note in directory.notes:
            log.warning(note)
        directory.broker_epoch = self._broker_epoch()
        replicas: list[ReplicaDirectory] = []
        try:
            replicas = directory.replicas()
        except LogDirectoryFailure as failure:
            self._partitions.directory_failed(failure)
        gone = gone_replicas(directory, replicas, image, self._node_id)
        self._progress[directory] = _Progress(gone)
        # A new partition may have the name of one that was here long ago.
        directory.keep_checkpoints({(one.topic, one.partition) for one in replicas}.union(gone))
        return replicas

    # One replica.

    def _config(self, topic: str) -> LogConfig | None:
        """Returns the configuration of a topic's logs; None where the newest image has no such topic."""
        return self._opening.log_config(self._newest, topic) if self._newest.topic(topic) is not None else None

    def _open(self, folder: Found, config: LogConfig | None) -> Opened:
        """Opens a log. Any thread may call it. Raises LogDirectoryFailure."""
        directory, replica, key = folder
        noted = directory.unchanged(replica)
        is_first = self._partitions.get(key) is None
        if not is_first or not is_ours(directory, replica, self._first, self._node_id, noted):
            return Opened(folder, None)
        return Opened(folder, self._opening.read(directory, self._first, *key, config or LogConfig(), noted))

    def _take(self, opened: Opened) -> None:
        """Adds the replica, if it still is one of this broker. Raises LogDirectoryFailure."""
        directory, replica, key = opened.found
        image = self._newest
        topic = image.topic(key[0])
        high_watermark = directory.checkpoints.high_watermarks.get(key, 0)
        directory.forget_checkpoint(key)
        if opened.log is None or self._partitions.get(key) is not None:
            rename_stray(directory, replica)
            return
        if not isinstance(opened.log, UnopenedLog):
            report_opening(opened.log)
        registration = topic.partitions.get(key[1]) if topic is not None else None
        is_current = topic is not None and topic.id == self._first.topics.by_name[key[0]].id
        if not is_current or registration is None or self._node_id not in registration.replicas:
            directory.discard(opened.log, self._clock.now_ms())
            return
        self._opening.host(directory, image, opened.log, high_watermark)
        self._progress[directory].opened += 1

    # Later.

    def want(self, key: TopicPartition) -> None:
        """Opens a replica that waits before others, since a request has named it."""
        if key in self._waiting:
            self._wanted[key] = None

    @property
    def waiting(self) -> Mapping[TopicPartition, object]:
        """Returns the replicas that are not open yet."""
        return self._waiting

    @contextmanager
    def paused(self, image: MetadataImage) -> Iterator[None]:
        """Gives no replica a role while the others follow `image`, which leaves out those that wait."""
        self._may_apply.clear()
        try:
            yield
        finally:
            self._newest = image
            self._may_apply.set()

    async def _load_waiting(self) -> None:
        self._gc_pause.enter_context(GC_PAUSES.pause(freeze=True))
        end_of_pause = asyncio.get_running_loop().call_later(LONGEST_GC_PAUSE_S, self._gc_pause.close)
        try:
            await self._load_all_waiting()
        finally:
            end_of_pause.cancel()
            self._gc_pause.close()
            if self._ahead is not None:
                await asyncio.wait([self._ahead.looks])
        # After a failure those that wait stay without a leader, and the next stop is not a clean one.
        if not self._waiting and not self._is_stopped:
            self._end()

    async def _load_all_waiting(self) -> None:
        first = asyncio.ensure_future(self._load_some_and_more())
        while not first.done():
            before = self._batches
            await asyncio.wait([first], timeout=LARGE_LOG_S)
            await self._load_some_and_more(beside=before)
        await self._load_some_and_more()  # after a failure of the first one

    async def _load_some_and_more(self, beside: int | None = None) -> None:
        """`beside`: the number of batches; as long as it is that, the first thread reads one log."""
        while beside in (None, self._batches) and (batch := self._begin()):
            try:
                await self._load_some(batch)
            except Exception as failure:
                self._partitions.background.failed(TASK, failure)
                return
            self._in_work.difference_update(batch.keys)
            self._batches += beside is None

    def _begin(self) -> Batch | None:
        """Returns the replicas to open now. A thread looks at their files."""
        if self._ahead is not None:
            batch, self._ahead = self._ahead, None
            return batch
        keys = self._next()
        if not keys:
            return None
        found = [one for key in keys if key not in self._looked_at for one in self._waiting[key]]
        others = [one for key in keys if key in self._looked_at for one in self._waiting[key]]
        topics = [self._newest.topic(name) for name in {key[0] for key in keys}]
        topic_ids = {topic.name: topic.id for topic in topics if topic is not None}
        return Batch(keys, found, others, asyncio.ensure_future(self._disk.run(_look_at, found, topic_ids)))

    def _next(self) -> list[TopicPartition]:
        """Returns the replicas to open now, first those that requests have named."""
        if self._is_stopped:
            return []
        wanted, self._wanted = self._wanted, {}
        waiting = chain((key for key in wanted if key in self._waiting), self._waiting)
        self._at_a_time = min(self._at_a_time, OPENED_AT_A_TIME)
        keys = list(dict.fromkeys(islice((key for key in waiting if key not in self._in_work), self._at_a_time)))
        self._in_work.update(keys)
        return keys

    async def _load_some(self, batch: Batch) -> None:
        looks = await batch.looks
        self._at_a_time = LEAST_AT_A_TIME if looks.took_s > LARGE_LOG_S else self._at_a_time * 2
        await self._may_apply.wait()
        if self._ahead is None:
            self._ahead = self._begin()
        others = batch.others
        if self._is_stopped:
            return
        for found, seen in zip(batch.found, looks.seen, strict=True):
            if seen is None or not self._take_seen(found, seen):
                others.append(found)
        if others:
            self._looked_at.update(one.key for one in others)
            await self._load_others(others)
            self._looked_at.intersection_update(self._waiting)
        else:
            await asyncio.sleep(0)  # others have their turn
        if not all(directory.is_online for directory in self._partitions.directories):
            for found in [one for key in batch.keys for one in self._waiting.get(key, ())]:
                if not found.directory.is_online:
                    self._leave(found)

    def _take_seen(self, folder: Found, seen: SeenReplica) -> bool:
        """Opens a log that a thread has looked at. Returns False where one has to look at more of its files."""
        directory, replica, key = folder
        topic = self._newest.topic(key[0])
        registration = topic.partitions.get(key[1]) if topic is not None else None
        if (
            topic is None
            or registration is None
            or self._node_id not in registration.replicas
            or seen.noted.topic_id != topic.id
            or not directory.is_online
            or self._partitions.get(key) is not None
        ):
            return False
        is_replicated = len(registration.replicas) > 1
        opened = self._opening.open_seen(directory, self._newest, replica, seen, is_replicated=is_replicated)
        if opened is None:
            return False
        high_watermark = directory.checkpoints.high_watermarks.get(key, 0)
        directory.forget_checkpoint(key)
        self._opening.host(directory, self._newest, opened, high_watermark)
        self._progress[directory].opened += 1
        self._leave(folder)
        return True

    async def _load_others(self, wanted: list[Found]) -> None:
        """Opens logs whose files a thread has to look at."""
        configs = {topic: self._config(topic) for topic in {found.key[0] for found in wanted}}
        asked = [(found, configs[found.key[0]]) for found in wanted]
        opened, failures = await self._disk.run(self._open_some, asked)
        await self._may_apply.wait()
        if self._is_stopped:
            return
        for failure in failures:
            self._partitions.directory_failed(failure)
        if any(failure.is_shortage for failure in failures):
            await asyncio.sleep(SHORTAGE_S)
        for one in opened:
            if one.found.directory.is_online:
                try:
                    self._take(one)
                except LogDirectoryFailure as failure:
                    self._partitions.directory_failed(failure)
                self._leave(one.found)

    def _open_some(
        self, wanted: list[tuple[Found, LogConfig | None]]
    ) -> tuple[list[Opened], list[LogDirectoryFailure]]:
        """Opens some of the logs, on a thread."""
        opened, failures, until = [], [], time.monotonic() + OPENING_S
        for one, config in wanted:
            try:
                if one.directory.is_online:
                    opened.append(self._open(one, config))
            except LogDirectoryFailure as failure:
                failures.append(failure)
                break
            if self._is_stopped or time.monotonic() > until:
                break
        return opened, failures

    def _leave(self, folder: Found) -> None:
        """Ends the wait of a folder; the partition has its role afterwards, or is made if the folder was not its replica."""
        folders = self._waiting[folder.key]
        folders.remove(folder)
        if not folders:
            del self._waiting[folder.key]
            self.apply(self._newest, folder.key)

    def _end(self) -> None:
        for directory, progress in self._progress.items():
            how = "a clean shutdown" if directory.had_clean_shutdown else "an unclean shutdown"
            if progress.opened:
                took_ms = (time.monotonic() - progress.began_s) * 1000
                log.info("%s: %d logs opened after %s in %.0f ms", directory.path, progress.opened, how, took_ms)
            directory.forget_checkpoints(progress.gone)
        self._progress, self._first = {}, EMPTY_IMAGE
        self._partitions.are_loaded = True

    async def stop(self) -> None:
        """Opens no more replicas. The stop is not a clean one then, and the next start opens them."""
        self._is_stopped = True
        self._may_apply.set()
        if self._task is not None:
            await self._task


def _look_at(folders: list[Found], topic_ids: dict[str, bytes]) -> Looks:
    """Looks at the files of replicas. Any thread may call it."""
    seen: list[SeenReplica | None] = []
    began_s = time.monotonic()
    for directory, group in groupby(folders, key=lambda one: one.directory):
        seen += directory.look_at([(one.replica, topic_ids.get(one.key[0], ZERO_UUID)) for one in group])
    return Looks(seen, time.monotonic() - began_s)
