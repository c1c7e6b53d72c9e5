"""The leadership of one partition, as one of its replicas sees it: who leads, who is in sync, what is committed.

```
             apply(partition names this broker leader)
   follower  -------------------------------------------->  leader
             <--------------------------------------------
             apply(partition names another, or nobody)
```

- Leader: its own log end and what each follower has fetched up to (`follower_fetched`) give the high watermark: the
  smallest log end among the replicas in sync. It never goes back within an epoch. `appended` and `follower_fetched`
  say whether it moved.
- Follower: the high watermark is what the leader says (`follow`), as far as its own log reaches.

Which replicas are in sync is the controller's word (`isr` of the last applied partition). Whoever may ask to join or
to be removed is for the ISR machine of the cluster; a partition with one replica is the case where the minimum has one
element.
"""

from __future__ import annotations

from typing import Protocol

from ..protocol.errors import ErrorCode

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
        "_follower_ends",
        "high_watermark",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "local_id",
        "log_end_offset",
        "partition_epoch",
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
        # What the other replicas are known to have; only a leader knows.
        self._follower_ends: dict[int, int] = {}

    def apply(self, registration: PartitionRegistration) -> bool:
        """Takes over what the metadata says; whether the leader or its epoch is another now. Older news is ignored."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        changed = (registration.leader, registration.leader_epoch) != (self.leader, self.leader_epoch)
        self.leader, self.leader_epoch = registration.leader, registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.replicas, self.isr = registration.replicas, registration.isr
        self.is_leader = self.leader == self.local_id
        if changed:
            self._follower_ends = {}
            self.leader_epoch_start_offset = self.log_end_offset if self.is_leader else -1
        if self.is_leader:
            self._advance()
        return changed

    def appended(self, log_end_offset: int) -> bool:
        """The local log has grown; whether the high watermark moved with it."""
        assert log_end_offset >= self.log_end_offset, "a log grows by appending"
        self.log_end_offset = log_end_offset
        if not self.is_leader:
            return False
        if len(self.isr) == 1:
            self.high_watermark = log_end_offset
            return True
        return self._advance()

    def truncated(self, log_end_offset: int) -> None:
        """The local log was cut: a follower's, to where it agrees with the leader's."""
        self.log_end_offset = log_end_offset
        self.high_watermark = min(self.high_watermark, log_end_offset)

    def follower_fetched(self, replica: int, fetch_offset: int) -> bool:
        """A follower has everything below the offset that it asks for; whether the high watermark moved."""
        if not self.is_leader or replica not in self.replicas or replica == self.local_id:
            return False
        self._follower_ends[replica] = fetch_offset
        return self._advance()

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

    def _advance(self) -> bool:
        """The high watermark up to what every replica in sync has; one that has not fetched yet holds it."""
        ends = self._follower_ends
        lowest = self.log_end_offset
        for replica in self.isr:
            if replica != self.local_id:
                lowest = min(lowest, ends.get(replica, 0))
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True
