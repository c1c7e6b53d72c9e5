"""Followers and observers: find the leader, fetch, truncate diverging records, and fetch a snapshot if the log is gone."""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.errors import ErrorCode
from ...protocol.messages.add_raft_voter import AddRaftVoterRequest
from ...protocol.messages.fetch import FetchResponse, PartitionData
from ...protocol.messages.fetch_snapshot import FetchSnapshotResponse
from ...protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ...protocol.messages.update_raft_voter import UpdateRaftVoterRequest, VoterVersions
from ...protocol.messages.voter_listeners import VoterListener
from ...protocol.node_ids import NO_NODE
from ...protocol.schema import Request
from . import wire
from .core import Core
from .diverged_commit import DivergedCommit
from .log import EpochEnd, SnapshotId
from .roles import Follower, Unattached

#: Voters detect a lost leader within the first delay of each other. A vote takes less than the second.
OTHERS_LEARN_MS = 10
NEXT_STANDS_MS = 100


class Following:
    def __init__(self, core: Core, stand: Callable[[int], None]) -> None:
        self._core = core
        self._stand = stand
        #: The position of the next node that an observer asks for the leader.
        self._asked = 0

    # ---- own requests

    def send(self, now_ms: int) -> None:
        core, role = self._core, self._core.role
        if isinstance(role, Follower):
            if core.can_send(role.leader_id, now_ms):
                self._fetch(role.leader_id, role, now_ms)
        elif isinstance(role, Unattached) and not core.may_stand:
            self._ask_for_leader(now_ms)

    def asks(self) -> list[int]:
        """Returns the nodes that an observer without a leader asks, in turn from a random one."""
        core = self._core
        return [*core.config.bootstrap, *(key.id for key in core.others())]

    def _ask_for_leader(self, now_ms: int) -> None:
        core, nodes = self._core, self.asks()
        if nodes and all(core.can_send(node, now_ms) for node in nodes):
            self._asked = (self._asked or core.rng.randrange(len(nodes))) + 1
            self._send_fetch(nodes[self._asked % len(nodes)], now_ms)

    def _fetch(self, leader_id: int, role: Follower, now_ms: int) -> None:
        core = self._core
        if role.snapshot is not None:
            cluster_id, most = core.config.cluster_id, core.config.fetch_snapshot_max_bytes
            position = role.snapshot_position
            request = wire.snapshot_request(cluster_id, core.local, core.epoch, role.snapshot, position, most)
            core.send(leader_id, request, now_ms)
        elif self._is_recorded_otherwise(role) and role.update_voter_at <= now_ms:
            role.update_voter_at = now_ms + core.config.fetch_timeout_ms
            core.send(leader_id, self._update_voter(), now_ms)
        elif self._wants_to_vote(role) and role.update_voter_at <= now_ms:
            role.update_voter_at = now_ms + core.config.fetch_timeout_ms
            core.send(leader_id, self._join(), now_ms)
        else:
            self._send_fetch(leader_id, now_ms)

    def _send_fetch(self, node: int, now_ms: int) -> None:
        """Sends a Fetch. The log must be synced up to the offset in it: the leader counts on it."""
        core = self._core
        config, most = core.config, core.config.fetch_max_bytes
        request = wire.fetch_request(config.cluster_id, core.local, core.epoch, core.log_end, core.high_watermark, most)
        core.send(node, request, now_ms, sync_to=core.log.end_offset)

    def _is_recorded_otherwise(self, role: Follower) -> bool:
        """Returns whether the leader lacks this voter's addresses. Static voters are not in the log, so this
        voter sends them to each leader.
        """
        core = self._core
        recorded, addresses = core.voter_set.voters.get(core.local.id), core.config.addresses
        if recorded is None or not core.is_voter or not addresses:
            return False
        return recorded.addresses != addresses if core.voters.kraft_version > 0 else not role.is_described

    def leader_knows_us(self, node: int) -> None:
        role = self._core.role
        if isinstance(role, Follower) and role.leader_id == node:
            role.is_described = True

    def _update_voter(self) -> UpdateRaftVoterRequest:
        core = self._core
        return UpdateRaftVoterRequest(
            cluster_id=core.config.cluster_id,
            current_leader_epoch=core.epoch,
            voter_id=core.local.id,
            voter_directory_id=core.local.directory_id,
            listeners=[VoterListener(name=a.name, host=a.host, port=a.port) for a in core.config.addresses],
            kraft_version_feature=VoterVersions(min_supported_version=0, max_supported_version=1),
        )

    def _wants_to_vote(self, role: Follower) -> bool:
        core = self._core
        may_join = core.config.auto_join and core.voters.kraft_version > 0 and bool(core.config.addresses)
        return may_join and role.has_fetched and not core.is_voter

    def _join(self) -> Request:
        """Returns the request to join the voters. They change one at a time: this node's entry with another directory
        goes first.

        A rejected request is sent again later.
        """
        core = self._core
        former = core.voter_set.voters.get(core.local.id)
        if former is not None:
            return RemoveRaftVoterRequest(core.config.cluster_id, former.key.id, former.key.directory_id)
        return AddRaftVoterRequest(
            cluster_id=core.config.cluster_id,
            timeout_ms=core.config.request_timeout_ms,
            voter_id=core.local.id,
            voter_directory_id=core.local.directory_id,
            listeners=[VoterListener(name=a.name, host=a.host, port=a.port) for a in core.config.addresses],
            ack_when_committed=False,
        )

    # ---- responses of the leader

    def fetched(self, node: int, response: FetchResponse, now_ms: int) -> None:
        core, role, partition = self._core, self._core.role, wire.response_of(response)
        if not isinstance(role, Follower) or node != role.leader_id:
            return
        if partition is None or partition.error_code != ErrorCode.NONE:
            core.back_off(node, now_ms)
            return
        role.fetch_deadline = now_ms + core.config.fetch_timeout_ms
        role.has_fetched = True
        self._take(role, partition, now_ms)

    def _take(self, role: Follower, partition: PartitionData, now_ms: int) -> None:
        core = self._core
        if partition.diverging_epoch.epoch >= 0:
            self._truncate(EpochEnd(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset))
        elif partition.snapshot_id.epoch >= 0 and partition.snapshot_id.end_offset >= 0:
            role.snapshot = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            role.snapshot_position = 0
        else:
            if partition.records:
                try:
                    core.learn(core.log.append_fetched(partition.records, core.epoch))
                except Exception:
                    # Damaged in transit or invalid. The next response may be good; it is fetched after a backoff.
                    core.back_off(role.leader_id, now_ms)
                    raise
                core.flush()
            core.advance_high_watermark(partition.high_watermark)

    def _truncate(self, diverging: EpochEnd) -> None:
        """Truncates to the end of what both logs may share. The next Fetch shows whether they do (KIP-595)."""
        core = self._core
        ours = core.log.end_offset_for(diverging.epoch)
        end = ours.end_offset if ours.epoch != diverging.epoch else min(ours.end_offset, diverging.end_offset)
        if end < core.high_watermark:
            raise DivergedCommit(f"the leader's log ends at {diverging}, which is below {core.high_watermark}")
        core.log.truncate(end)
        core.voters.truncate(end)

    def snapshot_fetched(self, node: int, response: FetchSnapshotResponse, now_ms: int) -> None:
        core, role, partition = self._core, self._core.role, wire.response_of(response)
        if not isinstance(role, Follower) or node != role.leader_id or role.snapshot is None:
            return
        if partition is None or partition.error_code != ErrorCode.NONE:
            # The snapshot may be deleted: the next Fetch returns another.
            role.snapshot = None
            core.back_off(node, now_ms)
            return
        role.fetch_deadline = now_ms + core.config.fetch_timeout_ms
        role.has_fetched = True
        named = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if named != role.snapshot or partition.position != role.snapshot_position:
            return
        role.snapshot_position = core.log.write_snapshot(named, partition.position, partition.unaligned_records)
        if role.snapshot_position >= partition.size:
            self._adopt(role, named)

    def _adopt(self, role: Follower, snapshot: SnapshotId) -> None:
        core = self._core
        role.snapshot = None
        if snapshot.end_offset <= core.high_watermark:
            return  # contains nothing that we lack
        controls = core.log.adopt_snapshot(snapshot)
        core.voters.forget()
        core.learn(controls)
        core.advance_high_watermark(snapshot.end_offset)

    def leader_is_gone(self, leader_id: int, now_ms: int) -> None:
        """Makes the remaining voters stand one after the other, so that the second can still vote for the first."""
        core, role = self._core, self._core.role
        if not isinstance(role, Follower) or role.leader_id != leader_id:
            return
        role.has_fetched = False
        left = sorted(voter_id for voter_id in core.voter_set.ids if voter_id != leader_id)
        rank = left.index(core.local.id) if core.local.id in left else 0
        role.fetch_deadline = min(role.fetch_deadline, now_ms + OTHERS_LEARN_MS + rank * NEXT_STANDS_MS)

    # ---- the leader times out

    def expire(self, now_ms: int) -> None:
        core, role = self._core, self._core.role
        if isinstance(role, Follower) and role.fetch_deadline <= now_ms:
            if core.may_stand:
                self._stand(now_ms)
            else:
                core.become_unattached(core.epoch, now_ms)

    def wants_to_send_at(self) -> int | None:
        core, role = self._core, self._core.role
        if isinstance(role, Follower):
            return core.send_at(role.leader_id)
        if isinstance(role, Unattached) and not core.may_stand:
            return max((core.send_at(node) for node in self.asks()), default=None)
        return None

    def leader_ends(self, leader_id: int, rank: int | None, candidates: int, now_ms: int) -> None:
        """Handles the resignation of the leader: the preferred successor stands at once, the others each a little later."""
        core, role = self._core, self._core.role
        if not isinstance(role, Follower) or role.leader_id not in (leader_id, NO_NODE) or rank is None:
            return
        role.has_fetched = False
        longest = core.config.election_backoff_max_ms
        wait = 0 if rank == 0 else 1 + core.rng.randrange(max(1, min(longest, longest * rank // max(1, candidates))))
        role.fetch_deadline = min(role.fetch_deadline, now_ms + wait)
