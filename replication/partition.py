"""The leadership of one partition, as one of its replicas sees it: who leads, who is in sync, what is committed.

```
             apply(partition names this broker leader)
   follower  -------------------------------------------->  leader
             <--------------------------------------------
             apply(partition names another, or nobody)
```

- Leader: its own log end and what each follower has fetched up to (`follower_fetched`) give the high watermark: the
  smallest log end among the replicas that may be in sync, and those that are about to be. It never goes back within an
  epoch, and stands still while fewer than `min.insync.replicas` are in sync (KIP-966). `appended` and
  `follower_fetched` say whether it moved.
- Follower: the high watermark is what the leader says (`follow`), as far as its own log reaches.

Which replicas are in sync is the controller's word. What the leader would have changed of it are proposals
(`propose_joining`, `propose_shrinking`, see isr.py), one at a time; a partition with one replica never has any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..protocol.errors import ErrorCode
from .isr import UNKNOWN_BROKER_EPOCH, UNKNOWN_OFFSET, FollowerState, IsrProposal, lagging, maximal

_NONE = int(ErrorCode.NONE)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_FENCED_LEADER_EPOCH = int(ErrorCode.FENCED_LEADER_EPOCH)
_UNKNOWN_LEADER_EPOCH = int(ErrorCode.UNKNOWN_LEADER_EPOCH)

#: Nobody leads, or nothing is known.
NO_LEADER = -1
#: A client that does not say which epoch it believes in.
ANY_EPOCH = -1


class PartitionRegistration(Protocol):
    """What the metadata says of a partition (`metadata.image.PartitionImage`)."""

    @property
    def replicas(self) -> tuple[int, ...]: ...
    @property
    def isr(self) -> tuple[int, ...]: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...


class Partition:
    """One replica's view. `local_id` is the broker that it is on; `log_end_offset` its own log's end."""

    __slots__ = (
        "followers",
        "high_watermark",
        "is_leader",
        "isr",
        "lag_time_max_ms",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "local_id",
        "log_end_offset",
        "may_join",
        "min_insync_replicas",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    def __init__(self, local_id: int, log_end_offset: int, high_watermark: int) -> None:
        assert high_watermark <= log_end_offset, f"high watermark {high_watermark} above the end {log_end_offset}"
        self.local_id = local_id
        self.log_end_offset = log_end_offset
        self.high_watermark = high_watermark
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.leader_epoch_start_offset = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.is_leader = False
        #: What the other replicas are known to have; only a leader knows.
        self.followers: dict[int, FollowerState] = {}
        #: The change of the set in sync that the controller has been asked for.
        self.proposal: IsrProposal | None = None
        #: `min.insync.replicas` of the topic and `replica.lag.time.max.ms` of the broker.
        self.min_insync_replicas = 1
        self.lag_time_max_ms = 30_000
        #: Whether a broker, with the epoch that its fetches carry, may be in sync: known, alive and the same process.
        self.may_join: Callable[[int, int], bool] = _anybody

    def apply(self, registration: PartitionRegistration, now_ms: int) -> bool:
        """Takes over what the metadata says; whether the leader or its epoch is another now. Older news is ignored."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        changed = (registration.leader, registration.leader_epoch) != (self.leader, self.leader_epoch)
        if changed or registration.partition_epoch > self.partition_epoch:
            self.proposal = None
        self.leader, self.leader_epoch = registration.leader, registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.replicas, self.isr = registration.replicas, registration.isr
        self.is_leader = self.leader == self.local_id
        if changed:
            self.followers = {}
            self.leader_epoch_start_offset = self.log_end_offset if self.is_leader else -1
        if self.is_leader:
            self._know_followers(now_ms)
            self._advance(now_ms)
        return changed

    def _know_followers(self, now_ms: int) -> None:
        """Who is in sync is given its time, as if it had caught up just now."""
        known = self.followers
        self.followers = {
            replica: known.get(replica) or FollowerState(now_ms if replica in self.isr else 0)
            for replica in self.replicas
            if replica != self.local_id
        }

    # ---- logs

    def appended(self, log_end_offset: int, now_ms: int) -> bool:
        """The local log has grown; whether the high watermark moved with it."""
        assert log_end_offset >= self.log_end_offset, "a log grows by appending"
        self.log_end_offset = log_end_offset
        if not self.is_leader:
            return False
        if not self.followers:
            self.high_watermark = log_end_offset
            return True
        return len(self.isr) == 1 and self._advance(now_ms)

    def truncated(self, log_end_offset: int, log_start_offset: int = 0) -> None:
        """The local log was cut: a follower's, to where it agrees with the leader's, or to begin further on."""
        self.log_end_offset = log_end_offset
        self.high_watermark = max(log_start_offset, min(self.high_watermark, log_end_offset))

    def follower_fetched(
        self,
        replica: int,
        fetch_offset: int,
        now_ms: int,
        *,
        log_start_offset: int = UNKNOWN_OFFSET,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> bool:
        """A follower has everything below the offset that it asks for; whether the high watermark moved."""
        follower = self.followers.get(replica)
        if not self.is_leader or follower is None or fetch_offset > self.log_end_offset:
            return False
        if UNKNOWN_BROKER_EPOCH != broker_epoch < follower.broker_epoch:
            return False  # of a process that is no more (KIP-903)
        follower.fetched(fetch_offset, log_start_offset, broker_epoch, self.log_end_offset, now_ms)
        return self._advance(now_ms)

    def follower_kept_up(self, replica: int, now_ms: int) -> None:
        """A follower that has everything has asked for more, the last time then; nothing was written meanwhile."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.kept_up(now_ms)

    def follow(self, high_watermark: int) -> bool:
        """The leader's high watermark, as its answer to our fetch says; whether ours moved."""
        if self.is_leader or high_watermark <= self.high_watermark:
            return False
        before = self.high_watermark
        self.high_watermark = min(high_watermark, self.log_end_offset)
        return self.high_watermark > before

    def error_for_epoch(self, current_leader_epoch: int, *, leader_only: bool = True) -> int:
        """The error code for a request whose sender believes in that epoch (KIP-320); 0 when it may go on."""
        if current_leader_epoch not in (ANY_EPOCH, self.leader_epoch):
            return _FENCED_LEADER_EPOCH if current_leader_epoch < self.leader_epoch else _UNKNOWN_LEADER_EPOCH
        return _NONE if self.is_leader or not leader_only else _NOT_LEADER_OR_FOLLOWER

    def _advance(self, now_ms: int) -> bool:
        """The high watermark up to what every replica has that is in sync, may be, or is about to be."""
        if not self.has_enough_in_sync:
            return False
        lowest, in_sync = self.log_end_offset, self.maximal_isr
        for replica, follower in self.followers.items():
            if follower.end_offset < lowest and (replica in in_sync or self._is_joining(replica, follower, now_ms)):
                lowest = follower.end_offset
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True

    def _is_joining(self, replica: int, follower: FollowerState, now_ms: int) -> bool:
        caught_up = follower.is_caught_up(self.log_end_offset, now_ms, self.lag_time_max_ms)
        return caught_up and self.may_join(replica, follower.broker_epoch)

    def low_watermark(self, log_start_offset: int) -> int:
        """Where the logs of all replicas start that are alive, as far as the leader knows; ours at `log_start_offset`."""
        starts = [
            follower.log_start_offset
            for replica, follower in self.followers.items()
            if self.may_join(replica, UNKNOWN_BROKER_EPOCH)
        ]
        return min([log_start_offset, *starts])

    # ---- who is in sync

    @property
    def least_in_sync(self) -> int:
        """How many must be in sync; a topic may ask for more than it has replicas, and gets what it has."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        return len(self.isr) >= self.least_in_sync

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Every replica that the controller may hold to be in sync."""
        return maximal(self.isr, self.proposal)

    def propose_joining(self, replica: int) -> IsrProposal | None:
        """Asks for a follower to be in sync, if it has come so far: to be called after its fetches."""
        follower = self.followers.get(replica)
        if self.proposal is not None or not self.is_leader or follower is None or replica in self.isr:
            return None
        has_all = follower.end_offset >= max(self.high_watermark, self.leader_epoch_start_offset)
        if not has_all or not self.may_join(replica, follower.broker_epoch):
            return None
        return self._propose((*self.isr, replica))

    def propose_shrinking(self, now_ms: int) -> IsrProposal | None:
        """Asks for those to be left out who have fallen behind; to be called every now and then."""
        if self.proposal is not None or not self.is_leader:
            return None
        gone = lagging(self.isr, self.followers, self.log_end_offset, now_ms, self.lag_time_max_ms)
        return self._propose(tuple(replica for replica in self.isr if replica not in gone)) if gone else None

    def _propose(self, isr: tuple[int, ...]) -> IsrProposal:
        self.proposal = IsrProposal(isr, self.leader_epoch, self.partition_epoch)
        return self.proposal

    def withdraw(self, proposal: IsrProposal) -> None:
        """The controller has refused it, and nothing else has changed."""
        if self.proposal is proposal:
            self.proposal = None

    def accepted(
        self, proposal: IsrProposal, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int, now_ms: int
    ) -> bool:
        """The controller's answer to a proposal; whether the high watermark moved.

        Where the metadata has said it before, another proposal may stand by now, and this answer is not of that.
        """
        if self.proposal is not proposal or leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self.isr, self.partition_epoch, self.proposal = isr, partition_epoch, None
        return self._advance(now_ms)


def _anybody(replica: int, broker_epoch: int) -> bool:
    return True
