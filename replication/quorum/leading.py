"""The leader role: starts an epoch, answers fetches, commits what a majority has synced, and resigns in time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode
from ...protocol.internal.control_records import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeVoter
from ...protocol.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest
from ...protocol.messages.fetch import SnapshotId as WireSnapshotId
from ...protocol.messages.fetch_snapshot import FetchSnapshotRequest, PartitionSnapshotRequest
from ...protocol.offsets import UNKNOWN_OFFSET
from ...protocol.records.control import ControlRecord, ControlType
from ...protocol.records.errors import BatchError
from ...protocol.schema import Message
from . import wire
from .core import Core
from .log import ControlAt, SnapshotId
from .roles import NEVER, Candidate, Leader, Progress, Resigned
from .voters import BEFORE_THE_LOG, ReplicaKey, VoterSet

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer


@dataclass(slots=True)
class _ParkedFetch:
    """A Fetch that waits for new records."""

    token: object
    asked: FetchPartition
    max_bytes: int
    deadline: int


class Leading:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._parked: list[_ParkedFetch] = []

    # ---- start of an epoch

    def begin(self, now_ms: int) -> None:
        """Starts the epoch of an elected candidate. Committing its first record commits all records before it."""
        core, candidate = self._core, self._core.role
        assert isinstance(candidate, Candidate) and candidate.tally.is_won
        role = Leader(core.epoch, candidate.voted, core.local.id, core.log.end_offset, tuple(candidate.tally.granted))
        role.check_quorum_deadline = now_ms + core.config.check_quorum_timeout_ms
        role.begin_at = {key.id: now_ms for key in core.others()}
        core.become(role)
        self.append(self._first_records(role), now_ms)

    def resume(self, epoch_start_offset: int) -> None:
        """Continues an epoch that this node already leads as the only voter: synced records are committed."""
        core = self._core
        assert core.voter_set.is_only(core.local) and core.log.end_offset > epoch_start_offset
        core.role = Leader(core.epoch, core.local, core.local.id, epoch_start_offset, (core.local.id,))

    def _first_records(self, role: Leader) -> list[ControlRecord]:
        core = self._core
        change = LeaderChangeMessage(
            # Kafka's brokers read no other version of this record, even with dynamic voters.
            version=0,
            leader_id=core.local.id,
            voters=[LeaderChangeVoter(voter_id=id) for id in core.voter_set.voters],
            granting_voters=[LeaderChangeVoter(voter_id=id) for id in sorted(role.granting)],
        )
        records = [ControlRecord(ControlType.LEADER_CHANGE, change)]
        voters = self._with_own_addresses()
        is_in_log = core.voters.current_offset != BEFORE_THE_LOG
        if core.voters.kraft_version > 0 and not (is_in_log and voters == core.voter_set):
            # The voters are still only in the formatted bootstrap snapshot and now enter the log, where followers read
            # them. Or this node's addresses changed, and it has no other leader to report them to (KIP-853).
            version = KRaftVersionRecord(version=0, kraft_version=core.voters.kraft_version)
            records.append(ControlRecord(ControlType.KRAFT_VERSION, version))
            records.append(ControlRecord(ControlType.KRAFT_VOTERS, voters.to_record()))
        return records

    def _with_own_addresses(self) -> VoterSet:
        core = self._core
        own, addresses = core.voter_set.voters.get(core.local.id), core.config.addresses
        if own is None or own.key != core.local or addresses in ((), own.addresses):
            return core.voter_set
        return core.voter_set.with_voter(replace(own, addresses=addresses))

    def append(self, records: list[ControlRecord], now_ms: int) -> None:
        core, offset = self._core, self._core.log.end_offset
        core.log.append_control(records, core.epoch, now_ms)
        core.learn(ControlAt(offset + number, record) for number, record in enumerate(records))
        self.appended(now_ms)

    def appended(self, now_ms: int) -> None:
        self._core.flush()
        self._wake(now_ms)

    def send_begin(self, now_ms: int) -> None:
        """Sends BeginQuorumEpoch to each voter until it fetches, and again if it has not fetched for a while."""
        core, role = self._core, self._core.role
        if not isinstance(role, Leader):
            return
        for key in core.others():
            if role.begin_at.setdefault(key.id, now_ms) <= now_ms and core.can_send(key.id, now_ms):
                core.send(key.id, wire.begin_request(core.config.cluster_id, key, core.local.id, core.epoch), now_ms)
                role.begin_at[key.id] = now_ms + core.config.fetch_timeout_ms // 2

    def begin_failed(self, node: int, now_ms: int) -> None:
        role = self._core.role
        if isinstance(role, Leader) and node in role.begin_at:
            role.begin_at[node] = now_ms + self._core.config.retry_backoff_ms

    # ---- fetches

    def reject(self, epoch: int) -> ErrorCode:
        """Returns the error for a Fetch with that current leader epoch (KIP-320), NONE if it is valid."""
        if epoch < self._core.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self._core.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(self._core.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def handle_fetch(self, token: object, request: FetchRequest, asked: FetchPartition, now_ms: int) -> None:
        core, role = self._core, self._core.role
        error = self.reject(asked.current_leader_epoch)
        if error is ErrorCode.NONE and (asked.fetch_offset < 0 or asked.last_fetched_epoch < 0):
            error = ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE:
            core.reply(token, self._fetch_response(error_code=int(error)))
            return
        assert isinstance(role, Leader)
        elsewhere = self._elsewhere(asked)
        if elsewhere is not None:
            core.reply(token, elsewhere)
            return
        replica_id = request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id
        if replica_id >= 0:
            self._fetched(role, ReplicaKey(replica_id, asked.replica_directory_id), asked.fetch_offset, now_ms)
        if (isinstance(core.role, Leader) and self._has_more(asked)) or request.max_wait_ms <= 0:
            core.reply(token, self._records(asked, request.max_bytes))
        else:
            self._parked.append(_ParkedFetch(token, asked, request.max_bytes, now_ms + request.max_wait_ms))

    def _elsewhere(self, asked: FetchPartition) -> Message | None:
        """Returns a response that redirects the follower: its log diverges, or ours starts later (KIP-595, KIP-630)."""
        log, offset, epoch = self._core.log, asked.fetch_offset, asked.last_fetched_epoch
        if offset == 0 and log.start_offset == 0:
            return None
        oldest, newest = log.earliest_snapshot, log.latest_snapshot
        if oldest is not None and newest is not None and _needs_snapshot(log.start_offset, oldest, offset, epoch):
            return self._fetch_response(snapshot_id=WireSnapshotId(end_offset=newest.end_offset, epoch=newest.epoch))
        end = log.end_offset_for(epoch)
        if end.epoch == epoch and end.end_offset >= offset:
            return None
        return self._fetch_response(diverging_epoch=EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset))

    def _fetched(self, role: Leader, key: ReplicaKey, offset: int, now_ms: int) -> None:
        """Records that a replica has everything below `offset` on disk."""
        core = self._core
        progress = role.progress.setdefault(key, Progress(key))
        if offset >= core.log.end_offset:
            progress.last_caught_up_ms = now_ms
        elif offset >= progress.leader_end_at_last_fetch >= 0:
            progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
        progress.end_offset = offset
        progress.last_fetch_ms, progress.leader_end_at_last_fetch = now_ms, core.log.end_offset
        self._is_alive(role, key, now_ms)
        self.commit(now_ms)

    def _has_more(self, asked: FetchPartition) -> bool:
        known = self._known_high_watermark()
        return asked.fetch_offset < self._core.log.end_offset or asked.high_watermark < known

    def _known_high_watermark(self) -> int:
        role = self._core.role
        return self._core.high_watermark if isinstance(role, Leader) and role.has_committed else UNKNOWN_OFFSET

    def _records(self, asked: FetchPartition, max_bytes: int) -> Message:
        log, records = self._core.log, None
        if asked.fetch_offset < log.end_offset:
            try:
                records = log.read(asked.fetch_offset, max(0, min(max_bytes, self._core.config.fetch_max_bytes)))
            except BatchError as damage:
                return self._around_damage(asked.fetch_offset, damage)
        return self._fetch_response(records=records)

    def _around_damage(self, offset: int, damage: BatchError) -> Message:
        """Returns a snapshot id beyond damaged records; without such a snapshot, an error, as this node cannot serve
        them.
        """
        newest = self._core.log.latest_snapshot
        if newest is not None and newest.end_offset > offset:
            return self._fetch_response(snapshot_id=WireSnapshotId(end_offset=newest.end_offset, epoch=newest.epoch))
        return self._fetch_response(error_code=int(damage.error_code))

    def _fetch_response(self, **fields: Any) -> Message:
        role, log = self._core.role, self._core.log
        fields = {"high_watermark": self._known_high_watermark(), "log_start_offset": log.start_offset, **fields}
        return wire.fetch_response(role.leader_id, role.epoch, **fields)

    def _wake(self, now_ms: int) -> None:
        """Answers parked fetches that have new data or have timed out."""
        parked, self._parked = self._parked, []
        for fetch in parked:
            if fetch.deadline <= now_ms or self._has_more(fetch.asked):
                self._core.reply(fetch.token, self._records(fetch.asked, fetch.max_bytes))
            else:
                self._parked.append(fetch)

    def release(self) -> None:
        """Answers all parked fetches with an error, because this node no longer leads."""
        parked, self._parked = self._parked, []
        for fetch in parked:
            error = self.reject(fetch.asked.current_leader_epoch)
            self._core.reply(fetch.token, self._fetch_response(error_code=int(error)))

    def handle_snapshot(
        self, token: object, request: FetchSnapshotRequest, asked: PartitionSnapshotRequest, now_ms: int
    ) -> None:
        core, role = self._core, self._core.role
        snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        error, size = self.reject(asked.current_leader_epoch), 0
        data: Buffer = b""
        if error is ErrorCode.NONE:
            most = max(0, min(request.max_bytes, core.config.fetch_snapshot_max_bytes))
            found = core.log.read_snapshot(snapshot, asked.position, most)
            if found is None:
                error = ErrorCode.SNAPSHOT_NOT_FOUND
            elif not 0 <= asked.position < found[0]:
                error = ErrorCode.POSITION_OUT_OF_RANGE
            else:
                size, data = found
        if isinstance(role, Leader) and error is ErrorCode.NONE:
            self._is_alive(role, ReplicaKey(request.replica_id, asked.replica_directory_id), now_ms)
        fields = {"error_code": int(error), "size": size, "position": asked.position, "unaligned_records": data}
        core.reply(token, wire.snapshot_response(role.leader_id, role.epoch, snapshot, **fields))

    # ---- commits

    def synced(self, end_offset: int, now_ms: int) -> None:
        role = self._core.role
        if isinstance(role, Leader):
            role.synced_offset = max(role.synced_offset, end_offset)
            self.commit(now_ms)

    def commit(self, now_ms: int) -> None:
        """Commits what a majority has. Only records of this epoch are counted; they commit those before them (Raft,
        5.4.2).
        """
        core, role = self._core, self._core.role
        assert isinstance(role, Leader)
        replicated = core.voter_set.replicated_offset(self._ends(role))
        if replicated > role.epoch_start_offset:
            moved = core.advance_high_watermark(replicated)
            if moved or not role.has_committed:
                role.has_committed = True
                self._wake(now_ms)

    def _ends(self, role: Leader) -> dict[int, int]:
        core = self._core
        ends: dict[int, int] = {}
        for key, progress in role.progress.items():
            if key in core.voter_set:
                ends[key.id] = max(progress.end_offset, ends.get(key.id, 0))
        if core.is_voter:
            ends[core.local.id] = role.synced_offset
        return ends

    # ---- end of an epoch

    def _is_alive(self, role: Leader, key: ReplicaKey, now_ms: int) -> None:
        """Check-quorum: resets the deadline once a majority has fetched. A leader without a majority cannot commit
        and must not appear to lead.
        """
        core = self._core
        if key not in core.voter_set or key.id == core.local.id:
            return
        role.begin_at[key.id] = now_ms + core.config.fetch_timeout_ms // 2
        role.fetched_voters.add(key.id)
        if len(role.fetched_voters) + core.is_voter >= core.voter_set.majority:
            role.fetched_voters.clear()
            role.check_quorum_deadline = now_ms + core.config.check_quorum_timeout_ms

    def resign(self, now_ms: int) -> None:
        """Resigns from this epoch for good. The voters with the largest log end offsets stand first."""
        core, role = self._core, self._core.role
        assert isinstance(role, Leader)
        ends, others = self._ends(role), core.others()
        preferred = tuple(sorted(others, key=lambda key: (-ends.get(key.id, 0), key.id)))
        unacknowledged = {key.id for key in others}
        until = now_ms + core.election_timeout()
        core.become(Resigned(core.epoch, role.voted, core.local.id, preferred, unacknowledged, until))

    def send_end(self, now_ms: int) -> None:
        core, role = self._core, self._core.role
        if isinstance(role, Resigned):
            for node in sorted(role.unacknowledged):
                if core.can_send(node, now_ms):
                    request = wire.end_request(core.config.cluster_id, core.local.id, core.epoch, role.preferred)
                    core.send(node, request, now_ms)

    def end_acknowledged(self, node: int) -> None:
        if isinstance(self._core.role, Resigned):
            self._core.role.unacknowledged.discard(node)

    def expire(self, now_ms: int) -> None:
        core, role = self._core, self._core.role
        if not isinstance(role, Leader):
            return
        self._wake(now_ms)
        if core.voter_set.is_only(core.local):
            role.check_quorum_deadline = NEVER
        elif role.check_quorum_deadline == NEVER:
            role.check_quorum_deadline = now_ms + core.config.check_quorum_timeout_ms
        elif role.check_quorum_deadline <= now_ms:
            self.resign(now_ms)

    def deadline(self) -> int:
        role = self._core.role
        if not isinstance(role, Leader):
            return NEVER
        begins = [max(role.begin_at.get(key.id, 0), self._core.send_at(key.id)) for key in self._core.others()]
        return min([role.check_quorum_deadline, *begins, *(fetch.deadline for fetch in self._parked)])


def _needs_snapshot(start_offset: int, oldest: SnapshotId, offset: int, epoch: int) -> bool:
    if offset < start_offset or epoch < oldest.epoch:
        return True
    return offset == start_offset and epoch != oldest.epoch
