"""The results of InitializeShareGroupState, WriteShareGroupState and DeleteShareGroupState by partition (KIP-932)."""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, UUID, Message, array, struct, wire


@struct
class StatePartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class StateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[StatePartitionResult] = wire(array(StatePartitionResult))
