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
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from ...protocol.records.errors import CorruptBatch, OldFormatInLog
from ...protocol.uuids import ZERO_UUID
from ...replication.partition import UNKNOWN_BROKER_EPOCH
from ...storage.files.open_files import OPEN_FILES, LogDirectoryFailure, OpenFile
from ...storage.log.log import Log, OffsetOutOfRange
from ...storage.segments.damage import OffsetDamaged, SegmentSuspected
from ...storage.segments.segment import LogSlice
from ..partitions.hosted_partition import HostedPartition
from ..partitions.parked_requests import MOST_CROWDED_BYTES, NotInPageCache, ParkedFetch, in_page_cache, sendable, warm
from .fetch_sessions import INVALID_SESSION_ID, FetchContext, FetchedPartition, FetchSession, IdleConsumer, IdleWatcher

if TYPE_CHECKING:
    from ..controller.cluster_view import Leaders
    from ..network.call import Call, CostMeter
    from ..partitions.remote_port import RemoteReads, RemoteSlice
    from ..replicas.scrubber import Scrubber
    from .subsystem import FetchPath


# Reads that meet damage: wait for the inspection of a segment, or for healing, or answer CORRUPT_MESSAGE.


#: A request waits for so many inspections at the most: each finds all damage of its segment.
MOST_INSPECTIONS = 8


class Inspection(Exception):
    """A read met something else than a batch: it is made again when it is known how far the damage reaches."""

    def __init__(self, hosted: HostedPartition, base_offset: int) -> None:
        super().__init__()
        self.hosted = hosted
        self.base_offset = base_offset


def piece_of(one: Found, *, may_wait: bool) -> Any:
    """Returns the records to send for a partition. Raises NotInPageCache, Inspection."""
    records = one.records
    if type(records) is not LogSlice:
        return None if records is None else records.data
    try:
        return sendable(records, may_wait=may_wait)
    except SegmentSuspected as suspected:
        assert one.hosted is not None
        raise Inspection(one.hosted, suspected.base_offset) from suspected


def check_readable(one: Found) -> None:
    """Raises NotInPageCache or Inspection where the records to send for a partition cannot be read at once."""
    records = one.records
    if type(records) is not LogSlice or one.hosted is None:
        return
    try:
        if not in_page_cache(records):
            raise NotInPageCache(partial(warm, records))
    except SegmentSuspected as suspected:
        raise Inspection(one.hosted, suspected.base_offset) from suspected


def waits_for_healing(
    scrubber: Scrubber, hosted: HostedPartition, wanted: FetchedPartition, met: OffsetDamaged
) -> Found:
    """Returns no records and no error while another replica's are being fetched. Raises `met` where no replica has them."""
    if not hosted.is_healing:
        scrubber.met(hosted, met)
        raise met
    return nothing_yet(hosted, wanted)


def inspects_again(scrubber: Scrubber, hosted: HostedPartition, replica: int, offset: int) -> None:
    """Notes the offset from which a follower got records. A second fetch of that offset means that its CRCs were wrong."""
    given = hosted.given
    if given is None:
        given = hosted.given = {}
    if given.get(replica) == offset:
        scrubber.doubt(hosted, offset)
    given[replica] = offset


# The response to a Fetch: what was found for each partition, with its topics, leaders and aborted transactions.


_LED_ELSEWHERE = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH))

NO_REPLICA = -1
# Shared by all responses that say nothing there.
NO_EPOCH = EpochEndOffset()
NO_LEADER = LeaderIdAndEpoch()
NO_SNAPSHOT = SnapshotId()
NO_NODES: list[NodeEndpoint] = []


class Found(NamedTuple):
    """The result for one partition. `hosted` is None and `records` empty where there is an error."""

    wanted: FetchedPartition
    hosted: HostedPartition | None
    data: PartitionData
    records: LogSlice | RemoteSlice | None


def topics_of(found: list[Found], pieces: list[Any], *, uses_ids: bool) -> list[FetchableTopicResponse]:
    topics: list[FetchableTopicResponse] = []
    current = None
    for one, piece in zip(found, pieces, strict=True):
        hosted = one.hosted
        if piece is not None:
            one.data.records = piece
            if hosted is not None:
                hosted.counters.bytes_out += len(piece)
        if hosted is not None:
            hosted.counters.fetches += 1
        name = one.wanted.key[0]
        if name != current:
            current = name
            topic = FetchableTopicResponse("", name, []) if uses_ids else FetchableTopicResponse(name, ZERO_UUID, [])
            topics.append(topic)
        topics[-1].partitions.append(one.data)
    return topics


def add_leaders(leaders: Leaders, listener: str, found: list[Found], response: FetchResponse) -> None:
    """Adds the current leaders of partitions that are led by other brokers (KIP-951)."""
    nodes: dict[int, NodeEndpoint] = {}
    for one in found:
        if one.data.error_code in _LED_ELSEWHERE:
            leader = leaders.current_leader(listener, one.wanted.key[0], one.data.partition_index)
            one.data.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
            if leader.node is not None:
                nodes[leader.id] = NodeEndpoint(*leader.node)
    if nodes:
        response.node_endpoints = list(nodes.values())


def rejected(index: int, error: int, aborted: list[AbortedTransaction] | None) -> PartitionData:
    return PartitionData(index, error, -1, -1, -1, NO_EPOCH, NO_LEADER, NO_SNAPSHOT, aborted, NO_REPLICA, b"")


def nothing_yet(hosted: HostedPartition, wanted: FetchedPartition) -> Found:
    """No records for now, and no error."""
    log, high_watermark = hosted.log, hosted.role.high_watermark
    stable = log.last_stable_offset(high_watermark)
    data = PartitionData(
        hosted.index, 0, high_watermark, stable, log.log_start_offset, NO_EPOCH, NO_LEADER, NO_SNAPSHOT, [], NO_REPLICA,
        b"",
    )  # fmt: skip
    return Found(wanted, hosted, data, None)


def is_remote(hosted: HostedPartition, offset: int) -> bool:
    """Returns whether only the remote store has the offset."""
    log = hosted.log
    return log.config.remote_storage and log.log_start_offset <= offset < log.local_log_start_offset


def is_urgent(data: PartitionData) -> bool:
    """Returns True if the partition has something to report beside records: the response must not wait then."""
    return data.error_code != 0 or data.diverging_epoch is not NO_EPOCH or data.preferred_read_replica != NO_REPLICA


def starts_elsewhere(one: Found) -> bool:
    """Returns True if a follower must get a new log start offset: DeleteRecords may wait for it."""
    return one.data.log_start_offset != one.wanted.sent_log_start_offset


def elsewhere(hosted: HostedPartition, replica: int, *, isolated: bool) -> PartitionData:
    """No records: they are to be read from another replica (KIP-392)."""
    high_watermark, log = hosted.high_watermark, hosted.log
    return PartitionData(
        hosted.index, 0, high_watermark, log.last_stable_offset(high_watermark), log.log_start_offset, NO_EPOCH,
        NO_LEADER, NO_SNAPSHOT, [] if isolated else None, replica, b"",
    )  # fmt: skip


def diverging_epoch(log: Log, wanted: FetchedPartition) -> EpochEndOffset:
    """Returns the offset at which the fetcher's log diverges from this one, if it does (KIP-595). Raises
    OffsetOutOfRange.
    """
    epoch, end_offset = log.epoch_end_offset(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(f"nothing is known of epoch {wanted.last_fetched_epoch}")
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return NO_EPOCH


def aborted_transactions(log: Log, offset: int, up_to_offset: int) -> list[AbortedTransaction]:
    entries = log.aborted_transactions(offset, up_to_offset)
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in entries]


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
        "_remote",
        "_replica_epoch",
        "_replica_id",
        "_version",
    )

    #: A consumer waits for what is committed.
    _watchers_of = attrgetter("watchers")

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
            if context.session is not None and self._replica_id < 0:
                context.session.deny(self._denied)
        self._missing_bytes = 0
        #: Reads of the remote store; None while there are none.
        self._remote: RemoteReads | None = None
        #: Whether the partitions have not been inspected yet.
        self._is_new = True
        self._inspections = 0

    # ---- life

    def start(self) -> FetchResponse | None:
        """The response, or None when it comes later."""
        response = self._attempt()
        self._is_new = False
        if response is None:
            call = self._call
            # The response may be large: none is begun behind it before it is sent.
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
        if response is not None:
            self._call.reply(response)

    def _attempt(self) -> FetchResponse | None:
        try:
            found, found_bytes, has_error = self._look(self._max_bytes, whole_first=True)
            if self._remote is not None and self._remote.is_pending:
                self._wait_for_remote()
                return None
            is_due = (
                has_error or found_bytes >= self._min_bytes or self._max_wait_ms <= 0 or not self._context.partitions
            )
            if is_due or self._is_last:
                return self._respond(found)
        except NotInPageCache as cold:
            self._warm(cold)
            return None
        except Inspection as wanted:
            self._inspect(wanted)
            return None
        self._missing_bytes = self._min_bytes - found_bytes
        return None

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
                try:
                    return self._read(hosted, wanted, wanted.fetch_offset, left, whole_first)
                except OffsetOutOfRange:
                    if not is_remote(hosted, wanted.fetch_offset):
                        raise
                return self._look_at_remote(hosted, wanted, left, whole_first)
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

    def _look_at_remote(self, hosted: HostedPartition, wanted: FetchedPartition, left: int, whole_first: bool) -> Found:
        """Begins a read of the remote store, or returns its result. Followers get records of the local log only."""
        from ..partitions.remote_port import RemoteReads, RemoteSlice

        port = self._path.partitions.remote
        one = nothing_yet(hosted, wanted)
        if self._replica_id >= 0:
            # The follower begins behind the store's part.
            one.data.error_code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
            return one._replace(hosted=None)
        if port is None:
            return Found(wanted, hosted, rejected(hosted.index, ErrorCode.REPLICA_NOT_AVAILABLE, None), None)
        if not self._isolated:
            one.data.aborted_transactions = None
        if self._remote is None:
            self._remote = RemoteReads(port, partial(self._warmed, None))
        found = self._remote.result(
            wanted.key, hosted, wanted.fetch_offset, min(left, wanted.max_bytes), isolated=self._isolated
        )
        if found is None or (len(found.data) > left and not whole_first):
            return one
        if found.error:
            hosted.counters.failed_fetches += 1
            return Found(wanted, hosted, rejected(hosted.index, found.error, None), None)
        if len(found.data) and wanted.fetch_offset >= hosted.log.log_start_offset:
            if self._isolated:
                one.data.aborted_transactions = [
                    AbortedTransaction(entry.producer_id, entry.first_offset) for entry in found.aborted or ()
                ]
            return one._replace(records=RemoteSlice(found.data))
        if found.next_offset > wanted.fetch_offset and not is_remote(hosted, found.next_offset):
            # Compaction has left nothing between the two.
            return self._read(hosted, wanted, found.next_offset, left, whole_first)
        return one

    def _read(
        self, hosted: HostedPartition, wanted: FetchedPartition, offset: int, left: int, whole_first: bool
    ) -> Found:
        """Reads the local log from `offset` on: the fetch offset, or the next one that has a record."""
        log = hosted.log
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

    def _respond(self, found: list[Found]) -> FetchResponse:
        context, path = self._context, self._path
        session, session_id = context.session, INVALID_SESSION_ID
        if session is not None and session.epoch != context.epoch:
            return FetchResponse(0, _INVALID_FETCH_SESSION_EPOCH, session.id, [], NO_NODES)
        # First what may find that it must wait, then what cannot be undone.
        may_wait = self._pread is os.pread
        pieces = [piece_of(one, may_wait=may_wait) for one in found]
        if session is not None:
            session_id = session.id
            found, pieces = self._update_session(found, pieces)
        elif context.opens_session and context.partitions:
            session_id = path.sessions.begin(
                context, path.clock.now_ms(), is_follower=self._replica_id >= 0, connection=self._call.connection
            )
            self._update_session(found, pieces)
        response = FetchResponse(
            0, _NONE, session_id, topics_of(found, pieces, uses_ids=context.uses_topic_ids), NO_NODES
        )
        if self._version >= FIRST_VERSION_WITH_LEADERS:
            add_leaders(path.leaders, self._call.listener, found, response)
        return response

    def _update_session(self, found: list[Found], pieces: list[Any]) -> tuple[list[Found], list[Any]]:
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


# A consumer's Fetch while clients have quotas: it finds no more than the quota allows, and waits with what exceeds it.
#
# A response that would exceed the quota is not sent. The client gets an empty one with the throttle time, and its session
# stays as it was, so that it asks for the same records again (KIP-219). Bytes are those of the records and 64 for each
# partition; Kafka counts the response with its names.
#: Size of a partition in a response, with its share of the topic.
_PARTITION_BYTES = 64


class ThrottledFetch(Fetch):
    __slots__ = ("_meter",)

    def __init__(self, path: FetchPath, call: Call, meter: CostMeter, context: FetchContext) -> None:
        super().__init__(path, call, context)
        self._meter = meter
        most = meter.most_fetched_bytes()
        if most < self._max_bytes:
            self._max_bytes = int(most)
            self._min_bytes = min(self._min_bytes, self._max_bytes)

    def _respond(self, found: list[Found]) -> FetchResponse:
        session = self._context.session
        size = sum(one.records.size + _PARTITION_BYTES for one in found if one.records is not None)
        if (
            size
            and (session is None or session.epoch == self._context.epoch)
            and self._meter.throttles_fetch(self._call, size)
        ):
            return FetchResponse(0, ErrorCode.NONE, 0 if session is None else session.id, [], NO_NODES)
        return super()._respond(found)


# A follower's session has thousands of partitions, and most of them have no new records. Such a partition is *idle* in that
# session: its follower is in sync, has the whole log of the leader, and has its high watermark.
#
#           inspected, and the response has nothing for it
#  active  ------------------------------------------------>  idle
#          <------------------------------------------------
#           appended to, truncated, deleted, given another leader or epoch, or named in a request
#
# A request inspects active partitions only, so a request without new records costs the same for ten partitions as for ten
# thousand. An idle partition waits for the next append in `end_watchers`. Each request of the session counts as a fetch of
# it: when it becomes active, the session's last request is the time at which the follower was last caught up.


class FollowerFetch(Fetch):
    """A Fetch of a follower: it reads uncommitted records, too, and its offsets are the follower's log ends."""

    __slots__ = ()
    #: A follower waits for what is written.
    _watchers_of = attrgetter("end_watchers")

    def __init__(self, path: FetchPath, call: Call, context: FetchContext) -> None:
        super().__init__(path, call, context)
        session = context.session
        if session is not None and session.replica_epoch != self._replica_epoch:
            session.replica_epoch = self._replica_epoch
            session.active_partitions = dict(session.partitions)

    def _wanted(self) -> Iterable[FetchedPartition]:
        session = self._context.session
        return super()._wanted() if session is None else list(session.active_partitions.values())

    def _skip_idle(self, hosted: HostedPartition, wanted: FetchedPartition) -> bool:
        self._fetcher_has(hosted, wanted)
        role, session = hosted.role, self._context.session
        if role.high_watermark != wanted.sent_high_watermark:
            return False
        if session is None or self._replica_id not in role.isr or role.high_watermark != hosted.log.log_end_offset:
            self._hosts.append(hosted)
        else:
            IdleFollower(session, wanted, hosted, self._replica_id).deactivate()
        return True

    def _fetcher_has(self, hosted: HostedPartition, wanted: FetchedPartition) -> None:
        """Notes once, when the request is new, that the follower has everything below its fetch offset."""
        if self._is_new:
            hosted.follower_fetched(
                self._replica_id,
                wanted.fetch_offset,
                wanted.log_start_offset,
                self._replica_epoch,
                self._path.clock.now_ms(),
            )

    def _respond(self, found: list[Found]) -> FetchResponse:
        for one in found:
            if one.records is not None and one.hosted is not None:
                inspects_again(self._path.scrubber, one.hosted, self._replica_id, one.wanted.fetch_offset)
        quota = self._path.replication().leaders
        if quota.is_on:
            for one in found:
                if one.records is not None and one.hosted is not None:
                    quota.record(one.hosted, one.records.size)
        return super()._respond(found)


class IdleFollower(IdleWatcher):
    """Waits in `hosted.end_watchers` on behalf of a session, which does not look at `partition` meanwhile."""

    __slots__ = ("_replica_id",)

    def __init__(
        self, session: FetchSession, partition: FetchedPartition, hosted: HostedPartition, replica_id: int
    ) -> None:
        super().__init__(session, partition, hosted)
        self._replica_id = replica_id

    def deactivate(self) -> None:
        """Makes the partition idle here, and active in other sessions of the same broker, which inspect it again."""
        watchers = self._hosted.end_watchers
        for watcher in list(watchers):
            if type(watcher) is IdleFollower and watcher._replica_id == self._replica_id:
                watcher._activate()
        watchers[self] = None
        del self._session.active_partitions[self._partition.key]

    def _activate(self) -> None:
        session, partition, hosted = self._session, self._partition, self._hosted
        hosted.end_watchers.pop(self, None)
        hosted.role.follower_kept_up(self._replica_id, session.last_used_ms)
        session.activations += 1
        if session.partitions.get(partition.key) is partition:
            session.active_partitions[partition.key] = partition
            if session.parked is not None:
                session.parked.watch_too(hosted)
