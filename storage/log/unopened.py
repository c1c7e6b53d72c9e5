"""A log that was found as its note has it, and of which nothing is read yet. A start makes one for each partition.

`open` makes the `Log`. Until then the note answers what a broker asks of all its logs: ends, sizes, what is to be flushed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..files.failures import LogDirectoryFailure
from ..files.open_files import OPEN_FILES
from ..files.partition_directory import PartitionDirectory
from ..segments.damage import Damage
from .epochs import UNDEFINED_EPOCH
from .loading import LogLoader
from .log import Log
from .log_facts import UNNOTED, LogFacts
from .noted import is_as_noted, load_noted
from .small_logs import needs_snapshot, recover_small_log

if TYPE_CHECKING:
    from ..files.clean_replicas import CleanReplica
    from ..files.open_files import OpenFiles
    from .config import LogConfig
    from .ends import Claim
    from .small_log import SeenReplica


class UnopenedLog(LogFacts):
    """A log of which only the note is known. One thread calls all methods."""

    __slots__ = ("_leader_epoch", "_note", "_opened", "_takes_over")

    #: The same as long as the log is unopened: no record goes from its end.
    generation = 0
    has_removed_segments = False

    def __init__(
        self, directory: PartitionDirectory, note: CleanReplica, config: LogConfig, log_start_offset: int
    ) -> None:
        self._directory, self._note, self.config = directory, note, config
        self.log_start_offset = log_start_offset
        self.log_end_offset = note.log.end_offset if note.log is not None else 0
        self.damage = Damage(directory)
        self.recovered_bytes, self.opening_notes = 0, ()
        # The arguments of the last `begin_role`.
        self._leader_epoch, self._takes_over = UNDEFINED_EPOCH, False
        self._opened: Log | None = None

    @classmethod
    def of(
        cls,
        directory: PartitionDirectory,
        noted: CleanReplica,
        config: LogConfig,
        log_start_offset: int,
        recovery_point: int,
        claimed: int,
        *,
        clean: bool,
    ) -> UnopenedLog | None:
        """Returns None where a checkpoint contradicts the note, or the files have to be looked at. The caller compares
        the files with the note, and calls `begin`. `claimed`: the highest offset of the claims, 0 without any.
        """
        note, end = noted.log, 0
        if note is None:
            if noted.has_files or claimed or log_start_offset:
                return None
        else:
            end = note.end_offset
            if log_start_offset > end or claimed > end or (clean and 0 < claimed < end):
                return None
            first = note.segments[0].base_offset if not config.remote_storage else 0
            log_start_offset = max(log_start_offset, note.start_offset, first)
        log = cls(directory, noted, config, log_start_offset)
        log.recovery_point = end if clean else min(recovery_point, end)
        log.noted_end = end
        return log

    @classmethod
    def recovered(
        cls,
        directory: PartitionDirectory,
        config: LogConfig,
        log_start_offset: int,
        recovery_point: int,
        claimed: int,
        noted: CleanReplica | None = None,
        seen: SeenReplica | None = None,
    ) -> UnopenedLog | None:
        """Returns a small log whose batches were read and are whole, after a crash; None where more has to be looked at."""
        found = recover_small_log(directory, config, log_start_offset, claimed, noted, seen)
        if found is None:
            return None
        log = cls(directory, found, config, found.log.start_offset if found.log is not None else 0)
        log.recovery_point = min(recovery_point, log.log_end_offset)
        log.noted_end = UNNOTED
        return log

    def begin(self, topic: str, partition: int, files: OpenFiles, jitter: float, now_ms: int) -> None:
        """Sets the attributes that are not of the note."""
        self.topic, self.partition, self._files = topic, partition, files
        self._jitter, self.last_flush_ms = jitter, now_ms

    def open(self) -> Log:
        """Returns the log, the same with each call; this object is of no use any more. It reads no file of a log without
        producers. Raises LogDirectoryFailure for one that has them.
        """
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Log:
        directory, config, files, opened_ms = self._directory, self.config, self._files, self.last_flush_ms
        note = self._note.log
        try:
            if note is not None:
                start, flushed = self.log_start_offset, self.recovery_point
                loaded = load_noted(directory, config, files, opened_ms, note, start, flushed)
            else:
                loaded = LogLoader(directory, config, files, opened_ms).load(0, 0, clean=False, noted=self._note)
        except OSError as error:
            raise self._failed("opening", error) from error
        log = Log(directory, self.topic, self.partition, config, loaded, files)
        assert log.log_end_offset == self.log_end_offset, f"{log} was noted with the end {self.log_end_offset}"
        log._jitter, log.last_flush_ms = self._jitter, opened_ms
        log.recovery_point, log.noted_end = self.recovery_point, self.noted_end
        log.begin_role(self._leader_epoch, takes_over=self._takes_over)
        return log

    def __repr__(self) -> str:
        return f"UnopenedLog({self.path}, offsets {self.log_start_offset}-{self.log_end_offset})"

    # Answers from the note.

    @property
    def note(self) -> CleanReplica:
        """The note, with the present start of the log."""
        note, start = self._note, self.log_start_offset
        if note.log is None or note.log.start_offset == start:
            return note
        return note._replace(log=note.log._replace(start_offset=start))

    @property
    def first_base_offset(self) -> int:
        note = self._note.log
        return note.segments[0].base_offset if note is not None else 0

    @property
    def local_log_start_offset(self) -> int:
        return max(self.log_start_offset, self.first_base_offset)

    @property
    def has_files(self) -> bool:
        return self._note.log is not None

    @property
    def size(self) -> int:
        note = self._note.log
        return sum(segment.size for segment in note.segments) if note is not None else 0

    @property
    def segment_count(self) -> int:
        note = self._note.log
        return len(note.segments) if note is not None else 1

    def begin_role(self, leader_epoch: int, *, takes_over: bool) -> None:
        """Keeps the role for the log: see `Log.begin_role`."""
        self._leader_epoch, self._takes_over = leader_epoch, takes_over

    def drop_epochs_above(self, epoch: int) -> bool:
        """Does nothing: the note is of a log that had a role."""
        return False

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Does nothing: a log with producers is opened at once."""

    def last_stable_offset(self, high_watermark: int) -> int:
        """Returns the high watermark: there is no producer, and no transaction."""
        assert high_watermark <= self.log_end_offset, f"{self!r} ends below its high watermark {high_watermark}"
        return high_watermark

    # To the disk, and away.

    @property
    def is_unflushed(self) -> bool:
        """Returns whether closing it has to wait for the disk."""
        note = self._note.log
        return self.recovery_point < self.log_end_offset or (note is not None and not note.are_epochs_written)

    def flush_due(self, now_ms: int) -> int | None:
        """See `Log.flush_due`."""
        note, end, config = self._note.log, self.log_end_offset, self.config
        unflushed = end - self.recovery_point
        if note is None or unflushed <= 0:
            return None
        if unflushed >= config.flush_messages or now_ms - self.last_flush_ms >= config.flush_ms:
            return end
        base = note.segments[-1].base_offset
        return base if base > self.recovery_point else None

    def move_to(self, path: str) -> None:
        """Renames the partition's directory."""
        self.noted_end = UNNOTED
        try:
            self._directory.rename(path)
        except OSError as error:
            raise self._failed("moving", error) from error

    @property
    def is_complete(self) -> bool:
        """Returns whether the files have all that a clean stop writes. Where they do not, the log is opened to be closed."""
        return not self.is_unflushed and not self._lacks_snapshot()

    def close(self, now_ms: int, *, clean: bool = True, sync: bool = True) -> None:
        """Closes nothing, since nothing is open."""
        assert not clean or self.is_complete, f"{self} is to be opened, since its files lack what a clean stop writes"

    def _lacks_snapshot(self) -> bool:
        note = self._note.log
        if note is None or self.log_end_offset <= max(note.snapshots, default=note.segments[0].base_offset):
            return False
        return needs_snapshot(note.snapshots, note.has_producers, sum(one.size for one in note.segments))


def opened(log: Log | UnopenedLog) -> Log:
    """Returns the log, opened. Raises LogDirectoryFailure."""
    return log.open() if isinstance(log, UnopenedLog) else log


def find_log(
    path: str,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    now_ms: int,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    claims: Sequence[Claim] = (),
    clean: bool = False,
    noted: CleanReplica | None = None,
    jitter: float = 0.0,
    files: OpenFiles = OPEN_FILES,
) -> Log | UnopenedLog:
    """Returns the log in a directory, unopened if its note, or one read, has all that a start needs; as `Log.open` else,
    which has the arguments, too.
    """
    directory, unopened = PartitionDirectory(path), None
    claimed = max([claim.offset for claim in claims], default=0)
    try:
        if noted is not None:
            unopened = UnopenedLog.of(directory, noted, config, log_start_offset, recovery_point, claimed, clean=clean)
            if unopened is not None and noted.log is not None and not is_as_noted(path, noted.log):
                unopened = None
        if unopened is None and not clean:
            unopened = UnopenedLog.recovered(directory, config, log_start_offset, recovery_point, claimed, noted)
    except OSError as error:
        raise LogDirectoryFailure(directory.log_directory, f"opening {path}", error) from error
    if unopened is None:
        return Log.open(
            path, topic, partition, config, now_ms=now_ms, recovery_point=recovery_point, claims=claims, clean=clean,
            log_start_offset=log_start_offset, noted=noted, jitter=jitter, files=files,
        )  # fmt: skip
    unopened.begin(topic, partition, files, jitter, now_ms)
    if noted is not None and noted.log is not None and noted.log.has_producers:
        return unopened.open()  # their snapshot may be damaged
    return unopened
