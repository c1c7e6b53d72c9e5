"""The role of one replica in its partition: leader or follower, with its ISR and high watermark.

```
             apply(partition names this broker leader)
   follower  -------------------------------------------->  leader
             <--------------------------------------------
             apply(partition names another leader, or none)
```

- Leader: the high watermark follows from the leader's log end offset and the fetch offset of each follower
  (`follower_fetched`). It is the smallest log end offset among the replicas of the maximal ISR and those that are
  about to join. It never decreases within an epoch, and does not advance while the ISR is smaller than
  `min.insync.replicas` (KIP-966). `appended` and `follower_fetched` return whether it advanced.
- Follower: takes the high watermark from the leader (`follow`), limited by its own log end offset.

The controller decides on the ISR. The leader sends its changes as proposals (`propose_joining`, `propose_shrinking`),
one in flight at a time. A partition with one replica never has any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..metadata.image import NO_LEADER
from ..protocol.errors import ErrorCode
from ..protocol.offsets import UNKNOWN_OFFSET
from .isr import UNKNOWN_BROKER_EPOCH, FollowerState, IsrProposal, lagging, maximal

_NONE = int(ErrorCode.NONE)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_FENCED_LEADER_EPOCH = int(ErrorCode.FENCED_LEADER_EPOCH)
_UNKNOWN_LEADER_EPOCH = int(ErrorCode.UNKNOWN_LEADER_EPOCH)
#: The request carries no leader epoch.
ANY_EPOCH = -1


class PartitionRegistration(Protocol):
    """The metadata of a partition (`metadata.image.PartitionImage`)."""

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


class ReplicaRole:
    """The role of one replica. `local_id` is its broker, `log_end_offset` the end of its own log."""

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
        #: Fetch state of the other replicas; only on the leader.
        self.followers: dict[int, FollowerState] = {}
        #: The ISR change requested from the controller, while it is in flight.
        self.proposal: IsrProposal | None = None
        #: `min.insync.replicas` of the topic and `replica.lag.time.max.ms` of the broker.
        self.min_insync_replicas = 1
        self.lag_time_max_ms = 30_000
        #: Whether a broker with the broker epoch of its fetches may join the ISR: registered, unfenced, same
        #: incarnation.
        self.may_join: Callable[[int, int], bool] = _anybody

    def apply(self, registration: PartitionRegistration, now_ms: int) -> bool:
        """Applies the partition's metadata. Returns whether the leader or its epoch changed. Ignores older metadata."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        self._check_registration(registration)
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
            if self.followers or len(self.replicas) > 1:
                self._know_followers(now_ms)
            self._advance(now_ms)
        return changed

    def _check_registration(self, registration: PartitionRegistration) -> None:
        replicas, isr, epoch = registration.replicas, registration.isr, registration.leader_epoch
        assert isr == replicas or set(isr).issubset(replicas), f"ISR {isr} is not within the replicas {replicas}"
        assert epoch >= self.leader_epoch, f"leader epoch {epoch} after {self.leader_epoch}"

    def _know_followers(self, now_ms: int) -> None:
        """Builds the follower states. A new member of the ISR counts as caught up now, so it has the full lag time."""
        known = self.followers
        self.followers = {
            replica: known.get(replica) or FollowerState(now_ms if replica in self.isr else 0)
            for replica in self.replicas
            if replica != self.local_id
        }

    # ---- logs

    def appended(self, log_end_offset: int, now_ms: int) -> bool:
        """Records that the local log has grown. Returns whether the high watermark advanced."""
        assert log_end_offset >= self.log_end_offset, "a log grows by appending"
        self.log_end_offset = log_end_offset
        if not self.is_leader:
            return False
        if not self.followers:
            self.high_watermark = log_end_offset
            return True
        return len(self.isr) == 1 and self._advance(now_ms)

    def truncated(self, log_end_offset: int, log_start_offset: int = 0) -> None:
        """Records that the local log was truncated: to agree with the leader's log, or to start at a later offset."""
        assert log_start_offset <= log_end_offset, f"a log from offset {log_start_offset} to {log_end_offset}"
        self.log_end_offset = log_end_offset
        self.high_watermark = max(log_start_offset, min(self.high_watermark, log_end_offset))

    def cut(self, log_end_offset: int, log_start_offset: int, now_ms: int) -> None:
        """Records that a leader's log was cut: what its followers have is known by their next fetches."""
        self.truncated(log_end_offset, log_start_offset)
        self.leader_epoch_start_offset = min(self.leader_epoch_start_offset, log_end_offset)
        if self.followers:
            self.followers = {}
            self._know_followers(now_ms)

    def follower_fetched(
        self,
        replica: int,
        fetch_offset: int,
        now_ms: int,
        *,
        log_start_offset: int = UNKNOWN_OFFSET,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> bool:
        """Records a follower's fetch: it has everything below `fetch_offset`. Returns whether the high watermark
        advanced.
        """
        follower = self.followers.get(replica)
        if not self.is_leader or follower is None or fetch_offset > self.log_end_offset:
            return False
        if UNKNOWN_BROKER_EPOCH != broker_epoch < follower.broker_epoch:
            return False  # a former incarnation of the broker (KIP-903)
        follower.fetched(fetch_offset, log_start_offset, broker_epoch, self.log_end_offset, now_ms)
        return self._advance(now_ms)

    def follower_kept_up(self, replica: int, now_ms: int) -> None:
        """Records that a caught-up follower last fetched at `now_ms`, and that nothing was appended since its previous
        fetch.
        """
        follower = self.followers.get(replica)
        if follower is not None:
            follower.kept_up(now_ms)

    def follow(self, high_watermark: int) -> bool:
        """Takes the high watermark from the leader's fetch response. Returns whether the local one advanced."""
        if self.is_leader or high_watermark <= self.high_watermark:
            return False
        before = self.high_watermark
        self.high_watermark = min(high_watermark, self.log_end_offset)
        return self.high_watermark > before

    def error_for_epoch(self, current_leader_epoch: int, *, leader_only: bool = True) -> int:
        """Returns the error code for a request with this current leader epoch (KIP-320), 0 if the epoch is valid."""
        if current_leader_epoch not in (ANY_EPOCH, self.leader_epoch):
            return _FENCED_LEADER_EPOCH if current_leader_epoch < self.leader_epoch else _UNKNOWN_LEADER_EPOCH
        return _NONE if self.is_leader or not leader_only else _NOT_LEADER_OR_FOLLOWER

    def _advance(self, now_ms: int) -> bool:
        """Advances the high watermark to what all replicas of the maximal ISR, and those about to join, have."""
        if not self.has_enough_in_sync:
            return False
        lowest = self.log_end_offset
        if self.followers:
            in_sync = self.maximal_isr
            for replica, follower in self.followers.items():
                if follower.end_offset < lowest and (replica in in_sync or self._is_joining(replica, follower, now_ms)):
                    lowest = follower.end_offset
        if lowest <= self.high_watermark:
            return False
        assert lowest <= self.log_end_offset, f"high watermark {lowest} above the end {self.log_end_offset}"
        self.high_watermark = lowest
        return True

    def _is_joining(self, replica: int, follower: FollowerState, now_ms: int) -> bool:
        caught_up = follower.is_caught_up(self.log_end_offset, now_ms, self.lag_time_max_ms)
        return caught_up and self.may_join(replica, follower.broker_epoch)

    def low_watermark(self, log_start_offset: int) -> int:
        """Returns the smallest log start offset of the live replicas known to the leader; ours is `log_start_offset`."""
        starts = [
            follower.log_start_offset
            for replica, follower in self.followers.items()
            if self.may_join(replica, UNKNOWN_BROKER_EPOCH)
        ]
        return min([log_start_offset, *starts])

    # ---- in-sync replicas

    @property
    def least_in_sync(self) -> int:
        """Returns the effective minimum ISR size: `min.insync.replicas`, at most the number of replicas."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        in_sync = len(self.isr)
        return in_sync >= self.min_insync_replicas or in_sync >= len(self.replicas)

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Returns every replica that the controller may count as in sync."""
        return maximal(self.isr, self.proposal)

    def propose_joining(self, replica: int) -> IsrProposal | None:
        """Proposes to add a follower to the ISR if it has caught up. Called after each of its fetches."""
        follower = self.followers.get(replica)
        if self.proposal is not None or not self.is_leader or follower is None or replica in self.isr:
            return None
        has_all = follower.end_offset >= max(self.high_watermark, self.leader_epoch_start_offset)
        if not has_all or not self.may_join(replica, follower.broker_epoch):
            return None
        return self._propose((*self.isr, replica))

    def propose_shrinking(self, now_ms: int) -> IsrProposal | None:
        """Proposes to remove lagging members from the ISR. Called periodically."""
        if self.proposal is not None or not self.is_leader:
            return None
        gone = lagging(self.isr, self.followers, self.log_end_offset, now_ms, self.lag_time_max_ms)
        return self._propose(tuple(replica for replica in self.isr if replica not in gone)) if gone else None

    def _propose(self, isr: tuple[int, ...]) -> IsrProposal:
        assert self.local_id in isr, f"the leader {self.local_id} is not in the ISR {isr} that it proposes"
        assert set(isr).issubset(self.replicas), f"the ISR {isr} is not within the replicas {self.replicas}"
        self.proposal = IsrProposal(isr, self.leader_epoch, self.partition_epoch)
        return self.proposal

    def withdraw(self, proposal: IsrProposal) -> None:
        """Withdraws a proposal that the controller rejected, if it is still the current one."""
        if self.proposal is proposal:
            self.proposal = None

    def accepted(
        self, proposal: IsrProposal, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int, now_ms: int
    ) -> bool:
        """Applies the controller's response to a proposal. Returns whether the high watermark advanced.

        If newer metadata came first, another proposal may be in flight. The response does not apply to that one.
        """
        if self.proposal is not proposal or leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        assert set(isr).issubset(self.replicas), f"the ISR {isr} is not within the replicas {self.replicas}"
        self.isr, self.partition_epoch, self.proposal = isr, partition_epoch, None
        return self._advance(now_ms)


def _anybody(replica: int, broker_epoch: int) -> bool:
    return True
