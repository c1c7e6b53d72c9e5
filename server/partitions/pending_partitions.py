"""Partitions that belong here and could not be made or follow the metadata: the disk has no room, or there is a bug.

The stored data may be whole when there is no room for more: the log directory stays online. Such a partition
answers KAFKA_STORAGE_ERROR, a coordinator that lives in it COORDINATOR_NOT_AVAILABLE, and it is tried again until
the metadata gives it to others. So is a partition that failed by a bug: the metadata may not change it again for days.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage, PartitionImage, TopicPartition
    from ...storage.files.failures import LogDirectoryFailure
    from ...storage.log.log import Log
    from ...storage.log.unopened import UnopenedLog
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.metadata_cache import MetadataCache

log = logging.getLogger("odradek.partitions")

#: From one try to the next: a person who makes room does not wait long, and a try is a few system calls.
RETRY_S = 2.0
#: Partitions that are made in one turn of the loop; the others in the next ones.
MOST_IN_A_TURN = 20


class Make(Protocol):
    """Makes one partition, and gives it its role. `registration`: that of the partition in the image."""

    def __call__(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage, /
    ) -> None: ...


class PendingPartitions:
    """The partitions that wait for another try."""

    def __init__(self, node_id: int, clock: Clock, metadata: MetadataCache, lines: RepeatedLines) -> None:
        self._node_id = node_id
        self._clock = clock
        self._metadata = metadata
        self._lines = lines
        #: Set once, by the part that makes partitions.
        self.make: Make = _not_yet
        #: Called with the image after some were made: coordinators may live in them.
        self.on_made: list[Callable[[MetadataImage], object]] = []
        #: By topic and index, in the order in which they are tried.
        self._waiting: dict[TopicPartition, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Makes nothing while another image is applied in slices: the published one may be outdated."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def add(
        self, key: TopicPartition, failure: LogDirectoryFailure, created: Log | UnopenedLog | None, new_path: str | None
    ) -> None:
        """Adds a partition, and removes what its creation left behind, since others need the room. Older files stay."""
        if created is not None:
            created.close(self._clock.now_ms(), clean=False)
        if new_path is not None:
            self._remove(new_path)
        words = f"{key[0]}-{key[1]} cannot be created yet; creation is retried: {failure}"
        self._lines.log(log, logging.ERROR, "", ("pending", failure.directory), words)
        self._waiting.pop(key, None)
        self._waiting[key] = None
        self._plan(RETRY_S)

    def add_failed(self, key: TopicPartition, bug: Exception) -> None:
        """Adds a partition that failed to follow the metadata. What it has stays for the next try."""
        words = f"a bug: applying the metadata to {key[0]}-{key[1]} failed; it is retried"
        self._lines.log(log, logging.ERROR, "", ("failed", type(bug)), words, bug)
        self._waiting.pop(key, None)
        self._waiting[key] = None
        self._plan(RETRY_S)

    def made(self, topic: str, index: int) -> None:
        self._waiting.pop((topic, index), None)

    def stop(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _remove(self, path: str) -> None:
        """Removes a directory, or leaves it for the next try."""
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return
        except OSError as error:
            self._lines.log(
                log, logging.WARNING, "", "undo", f"{path} cannot be removed yet; removal is retried: {error}"
            )

    def _plan(self, delay_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        if self._is_paused:
            self._plan(RETRY_S)
            return
        image, count, has_room = self._metadata.image, 0, True
        for key in list(self._waiting)[:MOST_IN_A_TURN]:
            topic = image.topic(key[0])
            registration = topic.partitions.get(key[1]) if topic is not None else None
            if topic is None or registration is None or self._node_id not in registration.replicas:
                del self._waiting[key]
                continue
            self.make(image, topic.name, topic.id, key[1], registration)
            has_room = key not in self._waiting
            if not has_room:
                break
            count += 1
        if self._waiting:  # first: a failure of what follows ends no retries
            self._plan(0 if has_room else RETRY_S)
        if count:
            log.info("%d delayed partitions were created; %d still wait", count, len(self._waiting))
            for function in self.on_made:
                function(image)


def _not_yet(image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage, /) -> None:
    raise AssertionError(f"nothing makes {topic}-{index}")
