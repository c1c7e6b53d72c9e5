"""The ISR of a partition: a leader's view of its followers (KIP-497).

A follower is *caught up* at a time if it fetches from the leader's log end offset of that time. A follower that was
not caught up for `replica.lag.time.max.ms` leaves the ISR. A follower joins the ISR when it has everything below
the high watermark and the start of the leader's epoch. It must also be unfenced, with the broker epoch that the
metadata holds (KIP-841, KIP-903).

```
            propose(...)                accepted / newer metadata
 committed  ------------->  proposed  --------------------------->  committed
            <-------------  withdrawn: the controller rejected it
```

While a proposal is in flight the controller may have applied it already. So the high watermark is computed from the
*maximal* ISR, the union of both sets. `min.insync.replicas` is checked against the committed ISR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..protocol.offsets import UNKNOWN_OFFSET

UNKNOWN_BROKER_EPOCH = -1


class IsrProposal(NamedTuple):
    """An ISR change requested with AlterPartition. It is valid only for these epochs."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class FollowerState:
    """The leader's view of one follower, derived from its fetches."""

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
        """Records a fetch. The follower has everything below `fetch_offset`.

        It is caught up now if that is the leader's log end, or caught up at its previous fetch if it reached the log
        end of that time.
        """
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
        """Records that at `now_ms` the follower still fetched from the leader's log end, as at its last fetch."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        self.last_caught_up_ms = min(self.last_caught_up_ms, now_ms)  # the clock was set back
        return self.end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_time_max_ms


def maximal(isr: tuple[int, ...], proposal: IsrProposal | None) -> tuple[int, ...]:
    """Returns every replica that may be in the ISR from the controller's point of view."""
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
    """Returns the members of the ISR that have fallen behind."""
    return [
        replica
        for replica in isr
        if replica in followers and not followers[replica].is_caught_up(leader_end, now_ms, lag_time_max_ms)
    ]
