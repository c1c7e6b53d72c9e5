"""What all roles of a replica share: its log, its voters, its effects, and the one way from role to role."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...protocol.internal.control_records import KRaftVersionRecord, VotersRecord
from ...protocol.schema import Message
from ...protocol.uuids import ZERO_UUID
from .effects import Effect, ElectionState, Flush, Reply, Send, WriteState
from .invariants import must_hold
from .log import ControlAt, ReplicatedLog, SnapshotId
from .roles import MAY_FOLLOW, Follower, Role, Unattached
from .voters import NOBODY, Address, ReplicaKey, VoterHistory, VoterSet

#: A voter that begins stands at once, or nearly: where somebody leads, the pre-vote is refused and disturbs nobody.
FIRST_STANDS_MS = 50
#: Epochs are signed 32-bit numbers on the wire and in `quorum-state`.
MAX_EPOCH = (1 << 31) - 1
#: An epoch that is further ahead than this is nobody's: at an election a second it would take half a year without a leader.
#: Whoever believed one message that names the last epoch could never elect a leader again.
MAX_EPOCH_LEAP = 1 << 24


class Chance(Protocol):
    """What elections need of `random.Random`, so that a seed repeats them."""

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    """`controller.quorum.*`, with Kafka's defaults."""

    cluster_id: str
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    #: Nodes that an observer asks who leads, besides the voters.
    bootstrap: tuple[int, ...] = ()
    #: Of one answer.
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    #: An observer asks to become a voter, and to have another directory of its node taken out before (KIP-1186).
    auto_join: bool = False
    #: Where this node's own controller listeners are.
    addresses: tuple[Address, ...] = ()

    @property
    def check_quorum_timeout_ms(self) -> int:
        """Half as long again as followers wait: they give up first (KAFKA-15489)."""
        return self.fetch_timeout_ms * 3 // 2


class _InFlight(NamedTuple):
    correlation: int
    #: Nothing more is sent to that node before then, unless it answers.
    retry_at: int


class Core:
    def __init__(
        self,
        local: ReplicaKey,
        config: QuorumConfig,
        log: ReplicatedLog,
        voters: VoterHistory,
        state: ElectionState,
        chance: Chance,
        acknowledged: SnapshotId | None = None,
    ) -> None:
        #: Where the log ended that this replica had before its disk lost the end of it; None when nothing is lost.
        self.acknowledged = acknowledged
        self.local = local
        self.config = config
        self.log = log
        self.voters = voters
        self.chance = chance
        #: Below it everything is committed, as far as this replica knows; it never goes back.
        self.high_watermark = log.latest_snapshot.end_offset if log.latest_snapshot is not None else 0
        self.role: Role = Unattached(state.leader_epoch)
        self._written = state
        self._effects: list[Effect] = []
        self._correlation = 0
        self._in_flight: dict[int, _InFlight] = {}

    # ---- who, and in which epoch

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def voter_set(self) -> VoterSet:
        return self.voters.current

    @property
    def is_voter(self) -> bool:
        return self.local in self.voters.current

    @property
    def may_stand(self) -> bool:
        """A voter; or one whose removal is not known to be committed: nobody else may have the log to be elected with.

        A replica whose disk has lost records that it acknowledged waits until it has them again, or what replaced them.
        """
        if self.lacks_acknowledged:
            return False
        if self.is_voter:
            return True
        return self.voters.current_offset >= self.high_watermark and self.local in self.voters.previous

    @property
    def lacks_acknowledged(self) -> bool:
        """Whether the log ends before what this replica has acknowledged to leaders."""
        lost = self.acknowledged
        return lost is not None and (self.log.last_epoch, self.log.end_offset) < (lost.epoch, lost.end_offset)

    @property
    def log_end(self) -> SnapshotId:
        return SnapshotId(self.log.end_offset, self.log.last_epoch)

    def others(self) -> list[ReplicaKey]:
        return [voter.key for voter in self.voter_set.voters.values() if voter.key.id != self.local.id]

    def is_log_up_to_date(self, last_epoch: int, last_offset: int) -> bool:
        """Whether a log that ends so has all that ours has, or had (Raft's election restriction)."""
        ours, lost = (self.log.last_epoch, self.log.end_offset), self.acknowledged
        if lost is not None:
            ours = max(ours, (lost.epoch, lost.end_offset))
        return (last_epoch, last_offset) >= ours

    # ---- from role to role

    def become(self, role: Role) -> None:
        """The only way to another role. What must outlive a crash is written before anything is said in it."""
        before = self.role
        must_hold(type(role) in MAY_FOLLOW[type(before)], f"{before} may not become {role}")
        must_hold(role.epoch >= before.epoch, f"epoch {before.epoch} goes back to {role.epoch}")
        must_hold(role.epoch <= MAX_EPOCH, f"no epoch is left after {before.epoch}")
        if role.epoch == before.epoch and before.voted is not None:
            must_hold(role.voted == before.voted, f"the vote of epoch {role.epoch} changes from {before.voted}")
        self.role = role
        self._in_flight.clear()
        self.write_state()

    def write_state(self) -> None:
        voted = self.role.voted or ReplicaKey(NOBODY, ZERO_UUID)
        state = ElectionState(self.role.leader_id, self.role.epoch, voted.id, voted.directory_id)
        if state != self._written:
            self._written = state
            self._effects.append(WriteState(state))

    def become_unattached(self, epoch: int, now: int, leader_id: int = NOBODY) -> None:
        """In the same epoch the vote stays; so does the time until the next election, for whoever waits for one."""
        same = epoch == self.epoch
        role = Unattached(epoch, self.role.voted if same else None, leader_id)
        if self.may_stand:
            role.election_deadline = now + self.election_timeout()
            if isinstance(self.role, Unattached):
                role.election_deadline = min(role.election_deadline, max(self.role.election_deadline, now))
        self.become(role)

    def become_follower(self, epoch: int, leader_id: int, now: int) -> None:
        voted = self.role.voted if epoch == self.epoch else None
        must_hold(leader_id != self.local.id, f"{self.local} cannot follow itself")
        update_at = now + self.config.fetch_timeout_ms
        self.become(Follower(epoch, leader_id, voted, now + self.config.fetch_timeout_ms, update_voter_at=update_at))

    def is_credible(self, epoch: int) -> bool:
        """Whether a quorum can have come to that epoch, as far as this replica can tell."""
        return epoch <= self.epoch + MAX_EPOCH_LEAP

    def heard_of(self, epoch: int, leader_id: int, now: int) -> None:
        """Somebody says who leads in which epoch. Older news changes nothing, and what is known does not change."""
        if not self.is_credible(epoch):
            return
        if leader_id == self.local.id or leader_id < 0:
            # Said of what we were before a restart, or are; an epoch above ours we have led and forgotten cannot be.
            leader_id = NOBODY
        if epoch > self.epoch:
            if leader_id == NOBODY:
                self.become_unattached(epoch, now)
            else:
                self.become_follower(epoch, leader_id, now)
        elif epoch == self.epoch and leader_id != NOBODY and self._lacks_leader():
            self.become_follower(epoch, leader_id, now)

    def _lacks_leader(self) -> bool:
        """One who stands for election because the leader is silent is not sent back to it by hearsay."""
        return isinstance(self.role, Unattached) or self.role.leader_id == NOBODY

    def election_timeout(self) -> int:
        """Between one and two times the configured one, so that two seldom stand at once."""
        return self.config.election_timeout_ms + self.chance.randrange(self.config.election_timeout_ms)

    def first_election_timeout(self) -> int:
        """Of one that begins: a cluster that is started has no leader to wait for."""
        return self.chance.randrange(min(FIRST_STANDS_MS, self.config.election_timeout_ms))

    # ---- what goes out

    def take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def reply(self, token: object, response: Message) -> None:
        self._effects.append(Reply(token, response))

    def flush(self) -> None:
        self._effects.append(Flush(self.log.end_offset))

    def can_send(self, node: int, now: int) -> bool:
        """One request at a time to a node."""
        return self.send_at(node) <= now

    def send_at(self, node: int) -> int:
        in_flight = self._in_flight.get(node)
        return in_flight.retry_at if in_flight is not None else 0

    def send(self, node: int, request: Message, now: int, sync_to: int = 0, address: Address | None = None) -> int:
        self._correlation += 1
        self._in_flight[node] = _InFlight(self._correlation, now + self.config.request_timeout_ms)
        self._effects.append(Send(node, self._correlation, request, sync_to, address))
        return self._correlation

    def answered(self, node: int, correlation: int, now: int, is_failure: bool) -> bool:
        """Whether that is the answer to what was sent last, in this role. A node that failed is left alone for a bit."""
        in_flight = self._in_flight.get(node)
        if in_flight is None or in_flight.correlation != correlation:
            return False
        self._in_flight[node] = _InFlight(-1, now + self.config.retry_backoff_ms if is_failure else now)
        return True

    def back_off(self, node: int, now: int) -> None:
        self._in_flight[node] = _InFlight(-1, now + self.config.retry_backoff_ms)

    # ---- the log

    def learn(self, controls: Iterable[ControlAt]) -> None:
        """What the log, or a snapshot, says of the quorum; the newest set of voters counts from then on."""
        for offset, record in controls:
            if isinstance(record.message, VotersRecord):
                self.voters.add(offset, VoterSet.from_record(record.message))
            elif isinstance(record.message, KRaftVersionRecord):
                self.voters.set_kraft_version(offset, record.message.kraft_version)

    def advance_high_watermark(self, offset: int) -> bool:
        """Whether it moved. It never passes the end of the log."""
        offset = min(offset, self.log.end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True
