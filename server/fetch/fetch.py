"""A Fetch, from its partitions to its response; parked while there are fewer than `min_bytes`.

Kafka's rules: there is a size limit for all partitions and one for each, but the first batch of the response is always
given whole, so that a consumer makes progress. A response is due at once if it has `min_bytes`, if a partition has an
error, or if the client does not want to wait or asks for nothing. Otherwise it is due at the deadline, with the data
there is. A session's response has only partitions with data, an error, or another high watermark or log start offset
than in the last response.

Record batches are not copied here: large ranges leave as a `LogSlice` that the connection sends from the file, small
ones are read into the response. Data that is not in the page cache is first read by a thread, then inspected again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse, PartitionData
from ...protocol.records.errors import CorruptBatch, OldFormatInLog
from ...replication.isr import UNKNOWN_BROKER_EPOCH
from ...storage.files.open_files import OPEN_FILES, LogDirectoryFailure, OpenFile
from ...storage.log.log import OffsetOutOfRange
from ...storage.segments.damage import OffsetDamaged, SegmentSuspected
from ..partitions.hosted_partition import HostedPartition
from ..partitions.page_cache import MOST_CROWDED_BYTES, NotInPageCache
from ..partitions.parked_fetch import ParkedFetch
from .damaged_reads import MOST_INSPECTIONS, Inspection, piece_of, waits_for_healing
from .fetch_response import (
    NO_EPOCH,
    NO_LEADER,
    NO_NODES,
    NO_REPLICA,
    NO_SNAPSHOT,
    Found,
    aborted_transactions,
    add_leaders,
    diverging_epoch,
    elsewhere,
    is_urgent,
    rejected,
    starts_elsewhere,
    topics_of,
)
from .fetch_session import INVALID_SESSION_ID, FetchContext, FetchedPartition

if TYPE_CHECKING:
    from ..network.call import Call
    from .fetch_path import FetchPath

_NONE = int(ErrorCode.NONE)
_OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
_KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
_INVALID_FETCH_SESSION_EPOCH = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)

_NONE_DENIED: Set[Any] = frozenset()

READ_COMMITTED = 1
#: Consumers name their rack from here on, and with it may read from followers (KIP-392).
FIRST_VERSION_FROM_FOLLOWERS = 11
FIRST_VERSION_WITH_STORAGE_ERROR = 6
#: From here on a follower sends its broker epoch.
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_LEADERS = 16


class Fetch(ParkedFetch):
    """A Fetch request in progress."""

    __slots__ = (
        "_call",
        "_context",
        "_denied",
        "_inspections",
        "_is_new",
        "_isolated",
        "_leader_only",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_missing_bytes",
        "_path",
        "_rack",
        "_replica_epoch",
        "_replica_id",
        "_version",
    )

    def __init__(self, path: FetchPath, call: Call, context: FetchContext) -> None:
        super().__init__(path.waits)
        request: FetchRequest = call.request
        self._path = path
        self._call = call
        self._context = context
        self._version = version = call.version
        self._max_bytes = min(request.max_bytes, path.max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._max_wait_ms = request.max_wait_ms
        self._isolated = request.isolation_level == READ_COMMITTED
        state = request.replica_state
        self._replica_id, self._replica_epoch = (
            (request.replica_id, UNKNOWN_BROKER_EPOCH)
            if version < FIRST_VERSION_WITH_REPLICA_STATE
            else (state.replica_id, state.replica_epoch)
        )
        self._leader_only = self._replica_id >= 0 or version < FIRST_VERSION_FROM_FOLLOWERS
        #: The consumer's rack, if the response may name a replica that is nearer.
        self._rack = request.rack_id if self._replica_id < 0 and path.selector.is_rack_aware else ""
        #: The topics that the client may not read.
        self._denied: Set[Any] = _NONE_DENIED
        if path.authorization is not None:
            self._denied = path.authorization.denied(call, context, is_follower=self._replica_id >= 0)
        self._missing_bytes = 0
        #: Whether the partitions have not been inspected yet.
        self._is_new = True
        self._inspections = 0

    # ---- life

    def start(self) -> FetchResponse | None:
        """The answer, or None when it comes later."""
        response = self._attempt()
        self._is_new = False
        if response is None:
            call = self._call
            # The answer may be large: none is begun behind it before it is sent.
            call.hold_connection()
            call.request = None
            if not self._is_warming:
                self._watch()
                self._waits.deadlines.add(self, self._max_wait_ms)
        return response

    def on_bytes_available(self, size: int) -> None:
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self.on_state_changed()

    def _continue(self) -> None:
        """Something has changed for a fetch that waits: looks again."""
        self._is_woken = False
        self._unwatch()
        response = None if self._call.connection.closed else self._attempt()
        if response is None and not self._is_warming and not self._call.connection.closed:
            self._watch()
            if self.deadline is None:  # it began with an inspection
                self._waits.deadlines.add(self, self._max_wait_ms)
            return
        self._waits.deadlines.remove(self)
        if response is not None:
            self._call.reply(response)

    def _attempt(self) -> FetchResponse | None:
        try:
            found, found_bytes, has_error = self._look(self._max_bytes, whole_first=True)
            is_due = (
                has_error or found_bytes >= self._min_bytes or self._max_wait_ms <= 0 or not self._context.partitions
            )
            if is_due or self._is_last:
                return self._answer(found)
        except NotInPageCache as cold:
            self._warm(cold)
            return None
        except Inspection as wanted:
            self._inspect(wanted)
            return None
        self._missing_bytes = self._min_bytes - found_bytes
        return None

    def _warm(self, cold: NotInPageCache) -> None:
        # The records found are due when they are in memory: the client has waited for the disk.
        self._is_last = True
        super()._warm(cold)

    def _inspect(self, wanted: Inspection) -> None:
        self._is_warming = True
        self._inspections += 1
        self._path.scrubber.inspect(wanted.hosted, wanted.base_offset, partial(self._warmed, None))

    # ---- looking

    def _look(self, left: int, *, whole_first: bool) -> tuple[list[Found], int, bool]:
        """Reads each partition. Returns what was found, the bytes in all, and whether a partition has an error.
        `left`: the most bytes to find. `whole_first`: the first batch is given whole, however large it is.
        A session's partitions without changes are left out.
        """
        context = self._context
        partitions = self._path.partitions
        find: Callable[[Any], HostedPartition | None] = (
            partitions.get_by_id if context.uses_topic_ids else partitions.get
        )
        if self._denied:
            find = self._find_permitted(find)
        has_session = context.session is not None
        self._hosts = hosts = []
        found: list[Found] = []
        has_error = False
        found_bytes = 0
        if OpenFile.count > OPEN_FILES.limit:
            left = min(left, MOST_CROWDED_BYTES)
        for wanted in self._wanted():
            hosted = find(wanted.key)
            if hosted is None:
                found.append(self._absent(wanted))
                has_error = True
                continue
            if has_session and self._is_idle(hosted, wanted) and self._skip_idle(hosted, wanted):
                continue
            hosts.append(hosted)
            one = self._look_at(hosted, wanted, left, whole_first)
            found.append(one)
            if one.records is not None:
                size = one.records.size
                whole_first = False
                found_bytes += size
                left = 0 if OpenFile.count > OPEN_FILES.limit else max(0, left - size)
            elif is_urgent(one.data) or (self._replica_id >= 0 and has_session and starts_elsewhere(one)):
                has_error = True
        return found, found_bytes, has_error

    def _find_permitted(self, find: Callable[[Any], HostedPartition | None]) -> Callable[[Any], HostedPartition | None]:
        """Finds no partition of a topic that the client may not read."""
        return lambda key: None if key[0] in self._denied else find(key)

    def _wanted(self) -> Iterable[FetchedPartition]:
        return self._context.partitions.values()

    def _skip_idle(self, hosted: HostedPartition, wanted: FetchedPartition) -> bool:
        """Returns True if an idle partition needs no read and is only waited for."""
        self._hosts.append(hosted)
        return True

    def _is_idle(self, hosted: HostedPartition, wanted: FetchedPartition) -> bool:
        """Returns True if a session's client is at the end of the log and its last response has the current offsets."""
        role, log = hosted.role, hosted.log
        return (
            wanted.fetch_offset == (role.high_watermark if self._replica_id < 0 else log.log_end_offset)
            and wanted.sent_high_watermark == role.high_watermark
            and wanted.sent_log_start_offset == log.log_start_offset
            and role.is_leader
            and not hosted.offline
            and (wanted.last_fetched_epoch < 0 or wanted.last_fetched_epoch == log.epochs.latest)
            and wanted.current_leader_epoch in (-1, role.leader_epoch)
            and (self._replica_id < 0 or self._replica_id in role.followers)
        )

    def _fetcher_has(self, hosted: HostedPartition, wanted: FetchedPartition) -> None:
        """Notes that the fetcher has everything below its fetch offset; does nothing for consumers."""

    def _absent(self, wanted: FetchedPartition) -> Found:
        """Apache Kafka returns null aborted transactions for a missing partition; null is for read_uncommitted."""
        error: int = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if wanted.key[0] not in self._denied:
            error = self._path.leaders.absent_error(*wanted.key)
        return Found(wanted, None, rejected(wanted.key[1], self._sent_as(error), []), None)

    def _sent_as(self, error: int) -> int:
        if error == _KAFKA_STORAGE_ERROR and self._version < FIRST_VERSION_WITH_STORAGE_ERROR:
            return _NOT_LEADER_OR_FOLLOWER
        return error

    def _look_at(self, hosted: HostedPartition, wanted: FetchedPartition, left: int, whole_first: bool) -> Found:
        error = hosted.error_for_epoch(wanted.current_leader_epoch, leader_only=self._leader_only)
        if not error and self._replica_id >= 0:
            error = hosted.error_for_follower(self._replica_id, wanted.current_leader_epoch)
        if not error and self._rack and hosted.is_leader:
            nearer = self._path.selector.nearer_replica(self._rack, self._call.listener, hosted, wanted.fetch_offset)
            if nearer != NO_REPLICA:
                return Found(wanted, hosted, elsewhere(hosted, nearer, isolated=self._isolated), None)
        if not error:
            try:
                return self._read(hosted, wanted, left, whole_first)
            except OffsetOutOfRange:
                error = _OFFSET_OUT_OF_RANGE
            except SegmentSuspected as suspected:
                if self._inspections < MOST_INSPECTIONS:
                    raise Inspection(hosted, suspected.base_offset) from suspected
                self._path.scrubber.met(hosted, suspected)
                error = suspected.error_code
            except (CorruptBatch, OldFormatInLog) as unreadable:
                error = unreadable.error_code
            except LogDirectoryFailure as failure:
                hosted.on_failure(failure)
                error = _KAFKA_STORAGE_ERROR
        hosted.counters.failed_fetches += 1
        return Found(wanted, hosted, rejected(hosted.index, self._sent_as(error), None), None)

    def _read(self, hosted: HostedPartition, wanted: FetchedPartition, left: int, whole_first: bool) -> Found:
        log, offset = hosted.log, wanted.fetch_offset
        diverging = NO_EPOCH
        if wanted.last_fetched_epoch >= 0:
            diverging = diverging_epoch(log, wanted)
        if diverging is NO_EPOCH and log.log_start_offset <= offset <= log.log_end_offset:
            self._fetcher_has(hosted, wanted)
        high_watermark = hosted.role.high_watermark
        stable = log.last_stable_offset(high_watermark)
        if self._replica_id >= 0:
            is_throttled = self._path.replication().leaders.is_throttled(hosted, self._replica_id)
            limit = max(offset, log.log_start_offset) if is_throttled else log.log_end_offset
        else:
            limit = stable if self._isolated else high_watermark
        records = None
        if diverging is NO_EPOCH and (offset != limit or offset < log.log_start_offset):
            max_bytes = min(left, wanted.max_bytes)
            try:
                records = log.read(offset, max_bytes, limit, whole_first, self._pread)
            except OffsetDamaged as met:
                return waits_for_healing(self._path.scrubber, hosted, wanted, met)
            except BlockingIOError:
                raise NotInPageCache(partial(log.read, offset, max_bytes, limit, whole_first)) from None
            if records.is_unverified:
                self._path.scrubber.verify_soon(hosted, records.segment_base_offset)
            if not records.size:
                records = None
        aborted: list[AbortedTransaction] | None = None
        if self._isolated:
            aborted = [] if records is None else aborted_transactions(log, offset, records.next_offset)
        data = PartitionData(
            hosted.index, _NONE, high_watermark, stable, log.log_start_offset, diverging, NO_LEADER, NO_SNAPSHOT,
            aborted, NO_REPLICA, b"",
        )  # fmt: skip
        return Found(wanted, hosted, data, records)

    # ---- answering

    def _answer(self, found: list[Found]) -> FetchResponse:
        context, path = self._context, self._path
        session, session_id = context.session, INVALID_SESSION_ID
        if session is not None and session.epoch != context.epoch:
            return FetchResponse(0, _INVALID_FETCH_SESSION_EPOCH, session.id, [], NO_NODES)
        # First what may find that it must wait, then what cannot be undone.
        may_wait = self._pread is os.pread
        pieces = [piece_of(one, may_wait=may_wait) for one in found]
        if session is not None:
            session_id = session.id
            found, pieces = self._tell(found, pieces)
        elif context.opens_session and context.partitions:
            session_id = path.sessions.begin(
                context, path.clock.now_ms(), is_follower=self._replica_id >= 0, connection=self._call.connection
            )
            self._tell(found, pieces)
        response = FetchResponse(
            0, _NONE, session_id, topics_of(found, pieces, uses_ids=context.uses_topic_ids), NO_NODES
        )
        if self._version >= FIRST_VERSION_WITH_LEADERS:
            add_leaders(path.leaders, self._call.listener, found, response)
        return response

    def _tell(self, found: list[Found], pieces: list[Any]) -> tuple[list[Found], list[Any]]:
        """Notes the offsets sent to a session; leaves out partitions without changes."""
        session = self._context.session
        kept: list[Found] = []
        kept_pieces: list[Any] = []
        for one, piece in zip(found, pieces, strict=True):
            wanted, data = one.wanted, one.data
            error, high_watermark, log_start = data.error_code, data.high_watermark, data.log_start_offset
            is_new = (
                piece is not None
                or error
                or high_watermark != wanted.sent_high_watermark
                or log_start != wanted.sent_log_start_offset
                or is_urgent(data)
            )
            wanted.sent_high_watermark = -1 if error else high_watermark
            wanted.sent_log_start_offset = log_start
            if is_new:
                kept.append(one)
                kept_pieces.append(piece)
            if piece is not None and session is not None:
                session.gave_data(wanted)
        return kept, kept_pieces
