"""Tiered storage of a broker, as one subsystem: remote parts of its logs, their store, threads, and the metadata topic.

The composition root makes it where `remote.log.storage.system.enable` is set; nothing else imports the package. Partitions
reach it through their port (`server/partitions/remote_port.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Set
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ...metadata.configs import InvalidConfig
from ...metadata.image import TOPIC_RESOURCE
from ...protocol.errors import ErrorCode
from ...tiers.named_store import make_store
from ...tiers.segment_metadata import METADATA_TOPIC, TopicIdPartition
from ...tiers.store import InvalidStore, RemoteStore
from ..partitions.remote_port import RemoteRecords
from ..runtime.subsystem import Subsystem
from .deletion import Deletions
from .follower_start import start_follower
from .metadata_log import MetadataLog
from .reader import RemoteReader
from .remote_log import RemoteLog
from .work import RemoteWork

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ...storage.segments.timestamps import TimestampedOffset
    from ..config.broker_config import BrokerConfig
    from ..controller.subsystem import ControllerSubsystem
    from ..coordinators.subsystem import CoordinatorsSubsystem
    from ..network.subsystem import NetworkSubsystem
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.subsystem import PartitionsSubsystem
    from ..replicas.subsystem import ReplicasSubsystem
    from ..runtime.lent_memory import Borrower
    from ..runtime.node import Node

log = logging.getLogger("odradek.remote")

#: Partitions that are looked at before the loop does something else.
PARTITIONS_AT_A_TIME = 50
#: From one check to the next whether open uploads of the store are to be looked for.
LOOK_S = 10.0
#: Copies and deletions that fail for a store that hangs: a stop does not wait for it longer.
STOP_S = 5.0


class RemoteSubsystem(Subsystem):
    """Remote parts of the logs that this broker hosts. It is the port of the partitions (`RemotePort`)."""

    name = "remote"
    interest: Set[Part] = frozenset({"configs"})

    def __init__(
        self,
        node: Node,
        network: NetworkSubsystem,
        partitions: PartitionsSubsystem,
        replicas: ReplicasSubsystem,
        coordinators: CoordinatorsSubsystem,
        controller: ControllerSubsystem,
    ) -> None:
        self._config = node.config
        self._clock = node.clock
        self._metadata = node.metadata
        self._background = node.background
        self._partitions = hosted = partitions.hosted
        leaders, peers = replicas.leaders, network.peers
        events = MetadataLog(node, hosted, leaders, peers, coordinators.topic_creation())
        store = make_remote_store(node.config)
        self.work = RemoteWork(node, leaders, peers, events, store, controller.driver.has_commits_until)
        self.reader = RemoteReader(self.work)
        self.logs: dict[tuple[bytes, int], RemoteLog] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.deletions = Deletions(self.work)
        #: The last passes of partitions that have moved away, and starts of followers.
        self._endings: set[asyncio.Task[None]] = set()
        #: Leadings of partitions, not tiered any more, of which the store has nothing or is being emptied.
        self._disabled: set[tuple[bytes, int, int]] = set()
        self._starting: dict[tuple[bytes, int], asyncio.Task[None]] = {}
        self._is_due = asyncio.Event()
        hosted.remote = self
        node.metadata.on_published.append(self._published)

    async def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._follow_partitions(), name="remote partitions"),
            asyncio.create_task(self._run_passes(), name="remote passes"),
            asyncio.create_task(self._sweep_uploads(), name="remote uploads"),
        ]

    async def stop(self) -> None:
        self.work.is_stopping = True
        tasks = [*self._tasks, *self._starting.values(), *self._endings]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.deletions.stop()
        await self.reader.stop()
        await self.work.events.stop()
        ends = [asyncio.ensure_future(pool.done()) for pool in self.work.pools]
        await asyncio.wait(ends, timeout=STOP_S)
        for end, pool in zip(ends, self.work.pools, strict=True):
            if not end.done():
                log.warning("a call of the remote store does not end; the stop does not wait for it")
                end.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
        for remote in self.logs.values():
            remote.cancel()
        self.work.store.close()

    # Tiered partitions.

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Ends the remote part of topics that are not tiered any more, before anything reads their logs."""
        for kind, name in delta.configs:
            if kind == TOPIC_RESOURCE:
                self._end_untiered(name)
        return ()

    def _end_untiered(self, topic: str) -> None:
        for remote in [one for one in self.logs.values() if one.hosted.topic == topic]:
            hosted = remote.hosted
            if not hosted.log.config.remote_storage and not hosted.is_removed:
                hosted.advance_log_start_offset(hosted.log.local_log_start_offset)

    def _published(self, image: MetadataImage) -> None:
        self.work.events.refresh_sources()
        self._is_due.set()

    async def _follow_partitions(self) -> None:
        interval_s = self._config.get("remote.log.manager.task.interval.ms") / 1000
        while True:
            # Not `wait_for`: it drops the cancellation of a stop that comes together with an image.
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._is_due.wait()
            self._is_due.clear()
            try:
                await self._look_at_partitions()
            except Exception as failure:
                self._background.failed("remote partitions", failure)
            else:
                self._background.succeeded("remote partitions")

    async def _look_at_partitions(self) -> None:
        for number, hosted in enumerate(self._partitions):
            if number % PARTITIONS_AT_A_TIME == PARTITIONS_AT_A_TIME - 1:
                await asyncio.sleep(0)
            key = (hosted.topic_id, hosted.index)
            if hosted.log.config.remote_storage and not hosted.is_removed:
                remote = self.logs.get(key)
                if remote is None or remote.hosted is not hosted:
                    remote = self.logs[key] = RemoteLog(hosted, self.work)
                    self.work.events.follow(remote.partition)
                remote.take_role()
                remote.begin_pass()
            elif hosted.is_leader and key not in self.logs:
                self._resume_disabling(hosted)
        for key, remote in list(self.logs.items()):
            hosted = remote.hosted
            if hosted.is_removed or not hosted.log.config.remote_storage:
                del self.logs[key]
                self._end(remote)
        self.deletions.resume()
        self.deletions.delete_abandoned()

    def _end(self, remote: RemoteLog) -> None:
        """The topic is deleted or not tiered any more: its last leader deletes what the store has. Or it has moved away."""
        hosted, partition = remote.hosted, remote.partition
        is_deleted = self._metadata.image.topic_by_id(hosted.topic_id) is None
        if remote.leads and is_deleted:
            self.deletions.begin(partition, is_marked=True, before=remote.end, done=partial(self._unfollow, partition))
        elif remote.leads and not hosted.is_removed and self._is_emptied(hosted):
            self._empty(hosted, remote.end)
        else:
            task = asyncio.create_task(remote.end())
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)
            task.add_done_callback(lambda _: self._unfollow(partition))

    def _unfollow(self, partition: TopicIdPartition) -> None:
        is_read = (partition.topic_id, partition.partition) in self.logs or partition in self.deletions
        if not is_read and not self.work.is_stopping:
            self.work.events.unfollow(partition)

    # Topics that are not tiered any more.

    def _is_emptied(self, hosted: HostedPartition) -> bool:
        config = self._metadata.image.config(TOPIC_RESOURCE, hosted.topic)
        return config.get("remote.log.delete.on.disable", "").lower() == "true"

    def _resume_disabling(self, hosted: HostedPartition) -> None:
        """Has a leader empty the store once: a former leader, or this broker before it ended, may not have done so."""
        key = (hosted.topic_id, hosted.index, hosted.leader_epoch)
        has_metadata = self._metadata.image.topic(METADATA_TOPIC) is not None
        if has_metadata and key not in self._disabled and self._is_emptied(hosted):
            self._empty(hosted)

    def _empty(self, hosted: HostedPartition, before: Callable[[], Awaitable[None]] | None = None) -> None:
        epoch = hosted.leader_epoch
        key = (hosted.topic_id, hosted.index)
        self._disabled = {one for one in self._disabled if one[:2] != key} | {(*key, epoch)}
        partition = TopicIdPartition(hosted.topic_id, hosted.topic, hosted.index)
        self.deletions.begin(
            partition,
            is_marked=False,
            before=before or _at_once,
            may_go_on=lambda: hosted.leader_epoch == epoch and not hosted.log.config.remote_storage,
            done=partial(self._unfollow, partition),
        )

    async def _run_passes(self) -> None:
        interval_s = self._config.get("remote.log.manager.task.interval.ms") / 1000
        while True:
            await asyncio.sleep(interval_s)
            for number, remote in enumerate(list(self.logs.values())):
                if number % PARTITIONS_AT_A_TIME == PARTITIONS_AT_A_TIME - 1:
                    await asyncio.sleep(0)
                remote.begin_pass()

    async def _sweep_uploads(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.work.uploads.look(self.logs, asyncio.get_running_loop().time())
            except Exception as failure:
                self._background.failed("remote uploads", failure)
            else:
                self._background.succeeded("remote uploads")

    # The port of the partitions.

    def _remote(self, hosted: HostedPartition) -> RemoteLog | None:
        found = self.logs.get((hosted.topic_id, hosted.index))
        return found if found is not None and found.hosted is hosted else None

    def read(
        self,
        hosted: HostedPartition,
        offset: int,
        max_bytes: int,
        *,
        isolated: bool,
        done: Callable[[RemoteRecords], None],
    ) -> Callable[[], object]:
        remote = self._remote(hosted)
        if remote is None:
            soon = asyncio.get_running_loop().call_soon(done, RemoteRecords(ErrorCode.REPLICA_NOT_AVAILABLE))
            return soon.cancel
        return self.reader.read(remote, offset, max_bytes, isolated=isolated, done=done)

    def take_finished(
        self, hosted: HostedPartition, offset: int, max_bytes: int, *, isolated: bool
    ) -> RemoteRecords | None:
        return self.reader.take_finished(hosted, offset, max_bytes, isolated=isolated)

    def throttled_ms(self) -> int:
        return self.reader.throttled_ms()

    def fetch_throttled(self, wait_ms: int) -> None:
        self.work.counters.fetch_throttled_ms += wait_ms

    def lent_to(self, connection: Borrower) -> None:
        self.reader.budget.lent_to(connection)

    @property
    def fetch_max_wait_ms(self) -> int:
        return self._config.get("remote.fetch.max.wait.ms")

    def fetch_expired(self) -> None:
        self.work.counters.expired_fetches += 1

    def search_expired(self, topic: str) -> None:
        self.work.counters.topic(topic).expired_searches += 1

    def highest_remote_offset(self, hosted: HostedPartition) -> int | None:
        remote = self._remote(hosted)
        return None if remote is None or remote.cache is None else remote.highest_remote_offset()

    def find_by_timestamp(
        self, hosted: HostedPartition, timestamp: int, done: Callable[[int, TimestampedOffset | None], None]
    ) -> None:
        remote = self._remote(hosted)
        if remote is None:
            asyncio.get_running_loop().call_soon(done, ErrorCode.REPLICA_NOT_AVAILABLE, None)
        else:
            self.reader.find(remote, timestamp, done)

    def delete_local_segments(self, hosted: HostedPartition) -> int:
        remote = self._remote(hosted)
        return 0 if remote is None else remote.delete_local()

    def start_follower(self, hosted: HostedPartition, leader_start: int, done: Callable[[int], None]) -> None:
        remote, key = self._remote(hosted), (hosted.topic_id, hosted.index)
        if remote is None or key in self._starting:
            self._is_due.set()
            asyncio.get_running_loop().call_soon(done, ErrorCode.REPLICA_NOT_AVAILABLE)
            return
        task = self._starting[key] = asyncio.create_task(self._start_follower(remote, leader_start, done))
        task.add_done_callback(lambda _: self._starting.pop(key))

    async def _start_follower(self, remote: RemoteLog, leader_start: int, done: Callable[[int], None]) -> None:
        done(await start_follower(self.work, remote, leader_start))


async def _at_once() -> None:
    pass


def make_remote_store(config: BrokerConfig) -> RemoteStore:
    """Makes the store that the configuration names. Raises InvalidConfig."""
    prefix = config.get("remote.log.storage.manager.impl.prefix")
    texts = config.values.texts
    own = {name[len(prefix) :]: value for name, value in texts.items() if name.startswith(prefix)}
    try:
        return make_store(config.get("remote.log.storage.manager.class.name") or "", own, creates=True)
    except InvalidStore as error:
        raise InvalidConfig(f"remote.log.storage.manager.class.name: {error}") from error
