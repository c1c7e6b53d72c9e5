"""Which replicas are in sync: what the leader knows of each follower, and what it asks the controller to change (KIP-497).

A follower is *caught up* at a time when it asks for the leader's log end of that time; one that was not so for
`replica.lag.time.max.ms` leaves the set. One comes back when it has everything below the high watermark and the start of
the leader's epoch, and is the very process that the metadata knows, not fenced (KIP-841, KIP-903).

```
            propose(...)                accepted / newer metadata
 committed  ------------->  proposed  --------------------------->  committed
            <-------------  withdrawn: the controller refused
```

While a proposal is on its way the controller may have taken it already. So what counts for the high watermark is the
*maximal* set, in which are the members of either; and what counts as enough of them is the committed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1


class IsrProposal(NamedTuple):
    """What AlterPartition asks for: this set, if epochs are still these."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class FollowerState:
    """What a leader knows of one follower, by what it asks for."""

    __slots__ = (
        "broker_epoch",
        "end_offset",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_at_last_fetch",
        "log_start_offset",
    )

    def __init__(self, last_caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_ms = 0
        self.leader_end_at_last_fetch = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    def fetched(
        self, fetch_offset: int, log_start_offset: int, broker_epoch: int, leader_end: int, now_ms: int
    ) -> None:
        """It has everything below `fetch_offset`: all that there is, or all that there was when it asked before."""
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.leader_end_at_last_fetch = leader_end
        self.last_fetch_ms = now_ms

    def kept_up(self, now_ms: int) -> None:
        """It has asked at that time for what follows the leader's end, as at its last fetch."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        self.last_caught_up_ms = min(self.last_caught_up_ms, now_ms)  # a clock that was set back
        return self.end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_time_max_ms


def maximal(isr: tuple[int, ...], proposal: IsrProposal | None) -> tuple[int, ...]:
    """Every replica that may be in sync as far as the controller is concerned."""
    if proposal is None:
        return isr
    return (*isr, *(replica for replica in proposal.isr if replica not in isr))


def lagging(
    isr: tuple[int, ...],
    followers: Mapping[int, FollowerState],
    leader_end: int,
    now_ms: int,
    lag_time_max_ms: int,
) -> list[int]:
    """The members of the set that have fallen behind."""
    return [
        replica
        for replica in isr
        if replica in followers and not followers[replica].is_caught_up(leader_end, now_ms, lag_time_max_ms)
    ]
