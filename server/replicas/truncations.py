"""Truncations of followers' logs: what the disk claims of their ends is lowered first (storage/claims.py).

After an election the logs of many followers may be longer than their leader's. A log of which the disk claims no more
than the leader has is cut at once. The others wait for a thread, which writes the checkpoints of a directory once for all
that wait, and syncs the files of many logs together. Truncations that are wanted meanwhile have the next turn.

A follower fetches nothing while it waits, so nothing is appended to its log. Another role may come meanwhile: the claims
stay lowered then, and the log is not cut.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.records.errors import BatchError
from ...storage.files.failures import LogDirectoryFailure
from ..runtime.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from ...metadata.image import TopicPartition
    from ...storage.claims import CheckpointClaims
    from ...storage.directory import LogDirectory
    from ...storage.log.claims import FileClaims
    from ...storage.log.log import Log
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.thread_pools import ThreadPool

log = logging.getLogger("odradek.replicas")

#: The background task's name in logs, metrics and health.
TASK = "truncation of logs"
#: A sync of one log takes some milliseconds on a disk; one of everything, as long as there is something to write.
MOST_SINGLE_SYNCS = 64


class CleanOffsets(Protocol):
    """The offsets up to which logs are compacted (`LogCleaner`)."""

    def limit_clean_offset(self, hosted: HostedPartition, offset: int) -> bool:
        """Lowers that of a log that is about to be cut. Returns whether it was higher."""

    def clean_offsets_writer(self, path: str) -> Callable[[], None]:
        """Returns what writes those of a log directory, on a thread. It raises LogDirectoryFailure."""


class Truncation(NamedTuple):
    """A log that is to be cut. `offset`: its end then; above it, nothing may be claimed. `is_wanted` returns whether `cut`
    may run.
    """

    hosted: HostedPartition
    log: Log
    directory: LogDirectory
    offset: int
    files: FileClaims | None
    was_clean: bool
    is_wanted: Callable[[], bool]
    cut: Callable[[], object]

    @property
    def key(self) -> TopicPartition:
        return self.hosted.topic, self.hosted.index

    @property
    def is_clear(self) -> bool:
        """Returns whether the disk claims nothing above the offset."""
        return self.files is None and not self.was_clean and not self.directory.claims.reaches(self.key, self.offset)


class Truncations:
    """The truncations that wait for the disk."""

    def __init__(self, disk: ThreadPool, clean_offsets: CleanOffsets, background: BackgroundTasks) -> None:
        self._disk = disk
        self._clean_offsets = clean_offsets
        self._background = background
        self._waiting: deque[Truncation] = deque()
        #: The number of truncations of each replica that have not ended.
        self._unfinished: Counter[HostedPartition] = Counter()
        self._task: asyncio.Task[None] | None = None

    def submit(
        self, hosted: HostedPartition, offset: int, is_wanted: Callable[[], bool], cut: Callable[[], object]
    ) -> None:
        """Has `cut` called once the disk claims nothing above the end that a truncation to `offset` leaves: at once where it
        does not. `cut` raises LogDirectoryFailure, here too.
        """
        truncation = self._prepared(hosted, offset, is_wanted, cut)
        if truncation.is_clear and hosted not in self._unfinished:
            self._release_and_cut(truncation)
            return
        self._unfinished[hosted] += 1
        self._waiting.append(truncation)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name=TASK)

    def stop(self) -> None:
        """Cuts no more logs."""
        if self._task is not None:
            self._task.cancel()

    def _prepared(
        self, hosted: HostedPartition, offset: int, is_wanted: Callable[[], bool], cut: Callable[[], object]
    ) -> Truncation:
        directory, opened = hosted.directory, hosted.open_log()
        try:
            offset = opened.end_before(offset)
        except BatchError:
            offset = 0  # the cut will fail, too
        # From here on no checkpoint is written with more.
        directory.claims.limit((hosted.topic, hosted.index), offset)
        files = opened.prepare_truncation(max(offset, opened.first_base_offset))
        was_clean = self._clean_offsets.limit_clean_offset(hosted, offset)
        return Truncation(hosted, opened, directory, offset, files, was_clean, is_wanted, cut)

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch = list(self._waiting)
                self._waiting.clear()
                for directory in {one.directory for one in batch}:
                    await self._lower(directory, [one for one in batch if one.directory is directory])
                for truncation in batch:
                    try:
                        self._end(truncation)
                        self._background.succeeded(TASK)
                    except Exception as failure:  # the others are cut all the same
                        self._background.failed(TASK, failure)
                    await asyncio.sleep(0)
        except Exception as failure:
            self._background.failed(TASK, failure)
        finally:
            self._task = None

    async def _lower(self, directory: LogDirectory, batch: Sequence[Truncation]) -> None:
        files = [one.files for one in batch if one.files is not None]
        write_clean_offsets = None
        if any(one.was_clean for one in batch):
            write_clean_offsets = self._clean_offsets.clean_offsets_writer(directory.path)
        try:
            await self._disk.run(lower_claims, directory.claims, files, write_clean_offsets)
        except LogDirectoryFailure as failure:
            batch[0].hosted.on_failure(failure)  # takes all replicas of the directory offline

    def _end(self, truncation: Truncation) -> None:
        """Cuts a log whose claims are lowered, unless it is not to be cut any more."""
        hosted = truncation.hosted
        self._unfinished[hosted] -= 1
        if not self._unfinished[hosted]:
            del self._unfinished[hosted]
        if hosted.is_removed or hosted.offline or not truncation.is_wanted():
            self._release(truncation)
            return
        try:
            if hosted.log is not truncation.log:  # it has moved to another directory meanwhile
                self._release(truncation)
                self.submit(hosted, truncation.offset, truncation.is_wanted, truncation.cut)
                return
            assert not truncation.directory.claims.reaches(truncation.key, truncation.offset), (
                f"{hosted.name}: a claim is left"
            )
            self._clean_offsets.limit_clean_offset(hosted, truncation.offset)
            self._release_and_cut(truncation)
        except LogDirectoryFailure as failure:
            hosted.on_failure(failure)

    def _release_and_cut(self, truncation: Truncation) -> None:
        """Ends the limit of the claims, and cuts the log. The claims stay limited where that fails: a start would miss the
        records up to higher ones.
        """
        self._release(truncation)
        try:
            truncation.cut()  # it may limit the claims itself, for work that goes on
        except BaseException:
            truncation.directory.claims.limit(truncation.key, truncation.offset)
            raise

    def _release(self, truncation: Truncation) -> None:
        """Ends the limit of the claims, unless another truncation of the log needs it."""
        hosted = truncation.hosted
        if hosted not in self._unfinished and not hosted.is_removed and hosted.directory is truncation.directory:
            truncation.directory.claims.release(truncation.key)


def lower_claims(
    claims: CheckpointClaims, files: Sequence[FileClaims], write_clean_offsets: Callable[[], None] | None
) -> None:
    """Lowers claims of logs of one directory, on a thread. Raises LogDirectoryFailure.

    The recovery points come first: a start reads again what the files of a log no longer have.
    """
    claims.lower()
    at_once = len(files) > MOST_SINGLE_SYNCS
    for one in files:
        one.lower(sync=not at_once)
    if at_once:
        os.sync()
    if write_clean_offsets is not None:
        write_clean_offsets()
