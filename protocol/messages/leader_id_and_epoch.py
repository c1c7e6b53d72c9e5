"""The current leader of a partition, in responses to Produce and Fetch (KIP-951)."""

from __future__ import annotations

from ..schema import INT32, Message, struct, wire


@struct
class LeaderIdAndEpoch(Message):
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)
