"""The current leader of a partition, in responses to ShareFetch and ShareAcknowledge (KIP-932)."""

from __future__ import annotations

from ..schema import INT32, Message, struct, wire


@struct
class ShareLeaderIdAndEpoch(Message):
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
