"""A Fetch, a consumer's or a follower's, from its partitions to its response; parked while there are fewer than `min_bytes`.

Kafka's rules: there is a size limit for all partitions and one for each, but the first batch of the response is
always given whole, so that a consumer makes progress. A response is due at once if it has `min_bytes`, if a
partition has an error, or if the client does not want to wait or asks for nothing. Otherwise it is due at the
deadline, with the data there is. A session's response has only partitions with data, an error, or another high
watermark or log start offset than in the last response.

Record batches are not copied here: large ranges leave as a `LogSlice` that the connection sends from the file,
small ones are read into the response. Data that is not in the page cache is first read by a thread, then inspected
again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Set
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from ...protocol.behaviour_versions import FETCH_WITH_STORAGE_ERROR
from ...protocol.errors import ErrorCode
from ...protocol.isolation import READ_COMMITTED
from ...protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse, PartitionData
from ...protocol.records.errors import CorruptBatch, OldFormatInLog
from ...replication.isr import UNKNOWN_BROKER_EPOCH
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.open_files import OPEN_FILES, OpenFile
from ...storage.log.log import OffsetOutOfRange
from ...storage.log.unopened import UnopenedLog
from ...storage.segments.damage import OffsetDamaged, SegmentSuspected
from ..network.no_request import NO_REQUEST
from ..partitions.parked_fetch import ParkedFetch
from ..partitions.sendable_records import MOST_CROWDED_BYTES, NotInPageCache
from ..runtime.sliced_work import run_to_completion
from .damaged_reads import MOST_INSPECTIONS, Inspection, piece_of, waits_for_healing
from .fetch_authorization import NONE_DENIED
from .fetch_response import (
    NO_EPOCH,
    NO_LEADER,
    NO_NODES,
    NO_REPLICA,
    NO_SNAPSHOT,
    FetchResult,
    aborted_transactions,
    add_leaders,
    diverging_epoch,
    elsewhere,
    is_remote,
    is_urgent,
    nothing_yet,
    out_of_range_error,
    rejected,
    starts_elsewhere,
    topics_of,
)
from .fetch_session import INVALID_SESSION_ID, IdleConsumer

if TYPE_CHECKING:
    from ..network.call import Call
    from ..network.file_sender import Piece
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.remote_reads import RemoteReads
    from .fetch_context import FetchContext
    from .fetch_path import FetchPath
    from .fetched_partition import FetchedPartition, PartitionKey, Topic

_NONE = int(ErrorCode.NONE)
_OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
_KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
_INVALID_FETCH_SESSION_EPOCH = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


#: Consumers name their rack from here on, and with it may read from followers (KIP-392).
WITH_RACKS = FetchRequest.versions_with("rack_id")
#: From here on a follower sends its broker epoch.
WITH_REPLICA_STATE = FetchRequest.versions_with("replica_state")
WITH_LEADERS = FetchResponse.versions_with("node_endpoints")


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
        "_remote",
        "_replica_epoch",
        "_replica_id",
        "_version",
    )

    #: A consumer waits for what is committed.
    _watchers_of = attrgetter("watchers")

    def __init__(self, path: FetchPath, call: Call[FetchRequest], context: FetchContext) -> None:
        super().__init__(path.waits)
        request = call.request
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
            if version not in WITH_REPLICA_STATE
            else (state.replica_id, state.replica_epoch)
        )
        self._leader_only = self._replica_id >= 0 or version not in WITH_RACKS
        #: The consumer's rack, if the response may name a replica that is nearer.
        self._rack = request.rack_id if self._replica_id < 0 and path.selector.is_rack_aware else ""
        #: The topics that the client may not read.
        self._denied: Set[Topic] = NONE_DENIED
        if path.authorization is not None:
            denied = context.denied
            if denied is None:
                denied = path.authorization.denied(call, context, is_follower=self._replica_id >= 0)
                if context.session is not None and self._replica_id < 0:
                    run_to_completion(context.session.deny_in_steps(denied))
            self._denied = denied
        self._missing_bytes = 0
        #: Reads of the remote store; None while there are none.
        self._remote: RemoteReads | None = None
        #: Whether the partitions have not been inspected yet.
        self._is_new = True
        self._inspections = 0

    # Life.

    def start(self) -> FetchResponse | None:
        """The response, or None when it comes later."""
        response = self._attempt()
        self._is_new = False
        if response is not None:
            if self._remote is not None:
                self._remote.release()
        else:
            call = self._call
            # The response may be large: none is begun behind it before it is sent.
            call.hold_connection()
            call.request = NO_REQUEST
            call.on_departure = self.on_state_changed
            if not self._is_warming:
                self._watch()
                self._waits.deadlines.add(self, self._max_wait_ms)
        return response

    def on_bytes_available(self, size: int) -> None:
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self.on_state_changed()

    def _watch(self) -> None:
        for hosted in self._hosts:
            self._watchers_of(hosted)[self] = None
        session = self._context.session
        if session is not None:
            session.parked = self

    def _unwatch(self) -> None:
        for hosted in self._hosts:
            self._watchers_of(hosted).pop(self, None)
        session = self._context.session
        if session is not None and session.parked is self:
            session.parked = None

    def watch_too(self, hosted: HostedPartition) -> None:
        """Waits for a partition that has become active since the wait began."""
        self._hosts.append(hosted)
        self._watchers_of(hosted)[self] = None

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
        if self._remote is not None:
            self._remote.release()
        if response is not None:
            self._call.reply(response)

    def _attempt(self) -> FetchResponse | None:
        try:
            found, found_bytes, has_error = self._read_partitions(self._max_bytes, whole_first=True)
            if self._remote is not None and self._remote.is_pending:
                self._wait_for_remote()
                return None
            is_enough = found_bytes >= self._min_bytes and (self._remote is None or not self._awaits_quota(found_bytes))
            is_due = has_error or is_enough or self._max_wait_ms <= 0 or not self._context.partitions
            if is_due or self._is_last:
                return self._respond(found)
        except NotInPageCache as cold:
            self._warm(cold)
            return None
        except Inspection as wanted:
            self._inspect(wanted)
            return None
        self._wait_for_more(self._min_bytes - found_bytes)
        return None

    def _awaits_quota(self, found_bytes: int) -> bool:
        """Returns whether the response would be empty since a read of the store was left out for its quota. The fetch then
        waits as for new records, and looks again when the quota may allow it: an empty response would have the client ask
        again at once (KIP-956).
        """
        assert self._remote is not None, "nothing is read from the store"
        return self._remote.throttled_ms > 0 and not found_bytes

    def _wait_for_more(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        if self._remote is not None:
            self._remote.retry_when_allowed(self._quota_allows)

    def _quota_allows(self) -> None:
        """The quota of reads may allow more."""
        if not self._is_warming:
            self.on_state_changed()

    def _wait_for_remote(self) -> None:
        """Waits for what the store reads, and answers then, with however little there is."""
        assert self._remote is not None, "nothing is read from the store"
        self._is_warming = self._is_last = True
        self._remote.wait()

    def _warm(self, cold: NotInPageCache) -> None:
        # The records found are due when they are in memory: the client has waited for the disk.
        self._is_last = True
        super()._warm(cold)

    def _inspect(self, wanted: Inspection) -> None:
        self._is_warming = True
        self._inspections += 1
        self._path.scrubber.inspect(wanted.hosted, wanted.base_offset, partial(self._warmed, None))

    # Looking.

    def _read_partitions(self, left: int, *, whole_first: bool) -> tuple[list[FetchResult], int, bool]:
        """Reads each partition. Returns what was found, the bytes in all, and whether a partition has an error.
        `left`: the most bytes to find. `whole_first`: the first batch is given whole, however large it is.
        A session's partitions without changes are left out.
        """
        context = self._context
        partitions = self._path.partitions
        find: Callable[[PartitionKey], HostedPartition | None] = (
            partitions.get_by_id if context.uses_topic_ids else partitions.get
        )
        if self._denied:
            find = self._find_permitted(find)
        has_session = context.session is not None
        self._hosts = hosts = []
        found: list[FetchResult] = []
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
            one = self._read_partition(hosted, wanted, left, whole_first)
            found.append(one)
            if one.records is not None:
                size = one.records.size
                whole_first = False
                found_bytes += size
                left = 0 if OpenFile.count > OPEN_FILES.limit else max(0, left - size)
            elif is_urgent(one.data) or (self._replica_id >= 0 and has_session and starts_elsewhere(one)):
                has_error = True
        return found, found_bytes, has_error

    def _find_permitted(
        self, find: Callable[[PartitionKey], HostedPartition | None]
    ) -> Callable[[PartitionKey], HostedPartition | None]:
        """Finds no partition of a topic that the client may not read."""
        return lambda key: None if key[0] in self._denied else find(key)

    def _wanted(self) -> Iterable[FetchedPartition]:
        session = self._context.session
        if session is not None and session.sets_idle_aside:
            return list(session.active_partitions.values())
        return self._context.partitions.values()

    def _skip_idle(self, hosted: HostedPartition, wanted: FetchedPartition) -> bool:
        """Returns True if an idle partition needs no read and is only waited for."""
        session = self._context.session
        if session is not None and session.sets_idle_aside and session.active_partitions.get(wanted.key) is wanted:
            IdleConsumer(session, wanted, hosted).deactivate()
        else:
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
            and (wanted.last_fetched_epoch < 0 or wanted.last_fetched_epoch == hosted.open_log().epochs.latest)
            and wanted.current_leader_epoch in (-1, role.leader_epoch)
            and (self._replica_id < 0 or self._replica_id in role.followers)
        )

    def _fetcher_has(self, hosted: HostedPartition, wanted: FetchedPartition) -> None:
        """Notes that the fetcher has everything below its fetch offset; does nothing for consumers."""

    def _absent(self, wanted: FetchedPartition) -> FetchResult:
        """Apache Kafka returns null aborted transactions for a missing partition; null is for read_uncommitted."""
        error: int = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if wanted.key[0] not in self._denied:
            error = self._path.leaders.absent_error(*wanted.key)
        return FetchResult(wanted, None, rejected(wanted.key[1], self._sent_as(error), []), None)

    def _sent_as(self, error: int) -> int:
        if error == _KAFKA_STORAGE_ERROR and self._version not in FETCH_WITH_STORAGE_ERROR:
            return _NOT_LEADER_OR_FOLLOWER
        return error

    def _read_partition(
        self, hosted: HostedPartition, wanted: FetchedPartition, left: int, whole_first: bool
    ) -> FetchResult:
        error = hosted.error_for_epoch(wanted.current_leader_epoch, leader_only=self._leader_only)
        if not error and self._replica_id >= 0:
            error = hosted.error_for_follower(self._replica_id, wanted.current_leader_epoch)
        if not error and self._rack and hosted.is_leader:
            nearer = self._path.selector.nearer_replica(self._rack, self._call.listener, hosted, wanted.fetch_offset)
            if nearer != NO_REPLICA:
                return FetchResult(wanted, hosted, elsewhere(hosted, nearer, isolated=self._isolated), None)
        if not error:
            try:
                try:
                    return self._read(hosted, wanted, wanted.fetch_offset, left, whole_first)
                except OffsetOutOfRange:
                    if not is_remote(hosted, wanted.fetch_offset):
                        raise
                return self._read_remote(hosted, wanted, left, whole_first)
            except OffsetOutOfRange:
                error = out_of_range_error(hosted, wanted)
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
        return FetchResult(wanted, hosted, rejected(hosted.index, self._sent_as(error), None), None)

    def _read_remote(
        self, hosted: HostedPartition, wanted: FetchedPartition, left: int, whole_first: bool
    ) -> FetchResult:
        """Begins a read of the remote store, or returns its result. Followers get records of the local log only."""
        from ..partitions.remote_reads import RemoteReads, RemoteSlice

        port = self._path.partitions.remote
        result = nothing_yet(hosted, wanted)
        if self._replica_id >= 0:
            # The follower begins behind the store's part.
            result.data.error_code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
            return result._replace(hosted=None)
        if port is None:
            return FetchResult(wanted, hosted, rejected(hosted.index, ErrorCode.REPLICA_NOT_AVAILABLE, None), None)
        if not self._isolated:
            result.data.aborted_transactions = None
        if self._remote is None:
            self._remote = RemoteReads(port, partial(self._warmed, None))
        remote = self._remote.result(
            wanted.key, hosted, wanted.fetch_offset, min(left, wanted.max_bytes), isolated=self._isolated
        )
        if remote is None or (len(remote.data) > left and not whole_first):
            return result
        if remote.error:
            hosted.counters.failed_fetches += 1
            error = remote.error
            if error == _OFFSET_OUT_OF_RANGE:
                error = out_of_range_error(hosted, wanted)
            return FetchResult(wanted, hosted, rejected(hosted.index, error, None), None)
        if len(remote.data) and wanted.fetch_offset >= hosted.log.log_start_offset:
            if self._isolated:
                result.data.aborted_transactions = [
                    AbortedTransaction(entry.producer_id, entry.first_offset) for entry in remote.aborted or ()
                ]
            port.lent_to(self._call.connection)
            return result._replace(records=RemoteSlice(remote.data))
        if remote.next_offset > wanted.fetch_offset and not is_remote(hosted, remote.next_offset):
            # Compaction has left nothing between the two.
            return self._read(hosted, wanted, remote.next_offset, left, whole_first)
        return result

    def _read(
        self, hosted: HostedPartition, wanted: FetchedPartition, offset: int, left: int, whole_first: bool
    ) -> FetchResult:
        """Reads the local log from `offset` on: the fetch offset, or the next one that has a record."""
        log = hosted.log
        diverging = NO_EPOCH
        if wanted.last_fetched_epoch >= 0:
            diverging = diverging_epoch(hosted.open_log(), wanted)
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
            if isinstance(log, UnopenedLog):
                log = hosted.open_log()
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
            aborted = [] if records is None else aborted_transactions(hosted.open_log(), offset, records.next_offset)
        data = PartitionData(
            hosted.index, _NONE, high_watermark, stable, log.log_start_offset, diverging, NO_LEADER, NO_SNAPSHOT,
            aborted, NO_REPLICA, b"",
        )  # fmt: skip
        return FetchResult(wanted, hosted, data, records)

    # Answering.

    def _respond(self, results: list[FetchResult]) -> FetchResponse:
        context, path = self._context, self._path
        session, session_id = context.session, INVALID_SESSION_ID
        if session is not None and session.epoch != context.epoch:
            return FetchResponse(0, _INVALID_FETCH_SESSION_EPOCH, session.id, [], NO_NODES)
        # First what may find that it must wait, then what cannot be undone.
        may_wait = self._pread is os.pread
        pieces = [piece_of(one, may_wait=may_wait) for one in results]
        if session is not None:
            session_id = session.id
            results, pieces = self._update_session(results, pieces)
        elif context.opens_session and context.partitions:
            session_id = path.sessions.begin(
                context, path.clock.now_ms(), is_follower=self._replica_id >= 0, connection=self._call.connection
            )
            self._update_session(results, pieces)
        response = FetchResponse(
            0, _NONE, session_id, topics_of(results, pieces, uses_ids=context.uses_topic_ids), NO_NODES
        )
        if self._version in WITH_LEADERS:
            add_leaders(path.leaders, self._call.listener, results, response)
        return response

    def _update_session(
        self, results: list[FetchResult], pieces: list[Piece | None]
    ) -> tuple[list[FetchResult], list[Piece | None]]:
        """Notes the offsets sent to a session; leaves out partitions without changes."""
        session = self._context.session
        kept: list[FetchResult] = []
        kept_pieces: list[Piece | None] = []
        for one, piece in zip(results, pieces, strict=True):
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
