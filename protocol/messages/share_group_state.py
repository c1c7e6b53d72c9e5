"""States of share partitions (KIP-932), which the share coordinator stores."""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire

# InitializeShareGroupState (key 83): the share coordinator begins the state of share partitions.
#
# Sent by the group coordinator, with a state epoch that fences older ones, and the first offset (KIP-932).
#
# Version 0, flexible.


@struct
class InitializeStatePartition(Message):
    partition: int = wire(INT32)
    state_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)


@struct
class InitializeStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[InitializeStatePartition] = wire(array(InitializeStatePartition))


@message("0", flexible="0+", key=83)
class InitializeShareGroupStateRequest(Message):
    group_id: str = wire(STRING)
    topics: list[InitializeStateData] = wire(array(InitializeStateData))


@struct
class PartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)


@struct
class StateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = wire(array(PartitionResult))


@message("0", flexible="0+", key=83)
class InitializeShareGroupStateResponse(Message):
    results: list[StateResult] = wire(array(StateResult))


# ReadShareGroupState (key 84): the state of share partitions, for their leader.
#
# The start, and the ranges above it with their delivery states and counts. The leader epoch fences former leaders
# (KIP-932).
#
# Version 0, flexible.


@struct
class ReadStatePartition(Message):
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class ReadStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ReadStatePartition] = wire(array(ReadStatePartition))


@message("0", flexible="0+", key=84)
class ReadShareGroupStateRequest(Message):
    group_id: str = wire(STRING)
    topics: list[ReadStateData] = wire(array(ReadStateData))


@struct
class StateBatchData(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)


@struct
class ReadStatePartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    state_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    state_batches: list[StateBatchData] = wire(array(StateBatchData))


@struct
class ReadStateResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ReadStatePartitionResult] = wire(array(ReadStatePartitionResult))


@message("0", flexible="0+", key=84)
class ReadShareGroupStateResponse(Message):
    results: list[ReadStateResult] = wire(array(ReadStateResult))


# ReadShareGroupStateSummary (key 87): the start and epochs of share partitions, without their ranges.
#
# For the group coordinator, to describe offsets (KIP-932).
#
# Versions 0-1, all flexible. Additions by version:
# - 1: how many deliveries are complete above the start (KIP-1226)


@message("0-1", flexible="0+", key=87)
class ReadShareGroupStateSummaryRequest(Message):
    group_id: str = wire(STRING)
    topics: list[ReadStateData] = wire(array(ReadStateData))


@struct
class ReadStateSummaryPartitionResult(Message):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, "1+", default=-1)


@struct
class ReadStateSummaryResult(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ReadStateSummaryPartitionResult] = wire(array(ReadStateSummaryPartitionResult))


@message("0-1", flexible="0+", key=87)
class ReadShareGroupStateSummaryResponse(Message):
    results: list[ReadStateSummaryResult] = wire(array(ReadStateSummaryResult))


# WriteShareGroupState (key 85): the share coordinator keeps what a share partition's leader decided.
#
# Appended to `__share_group_state` as an update, now and then as a snapshot. FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH
# (KIP-932).
#
# Versions 0-1, all flexible. Additions by version:
# - 1: how many deliveries are complete above the start (KIP-1226)


@struct
class WriteStatePartition(Message):
    partition: int = wire(INT32)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, "1+", default=-1)
    state_batches: list[StateBatchData] = wire(array(StateBatchData))


@struct
class WriteStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[WriteStatePartition] = wire(array(WriteStatePartition))


@message("0-1", flexible="0+", key=85)
class WriteShareGroupStateRequest(Message):
    group_id: str = wire(STRING)
    topics: list[WriteStateData] = wire(array(WriteStateData))


@message("0-1", flexible="0+", key=85)
class WriteShareGroupStateResponse(Message):
    results: list[StateResult] = wire(array(StateResult))


# DeleteShareGroupState (key 86): the share coordinator forgets share partitions.
#
# Sent by the group coordinator when a group or its topic is deleted (KIP-932).
#
# Version 0, flexible.


@struct
class DeleteStatePartition(Message):
    partition: int = wire(INT32)


@struct
class DeleteStateData(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[DeleteStatePartition] = wire(array(DeleteStatePartition))


@message("0", flexible="0+", key=86)
class DeleteShareGroupStateRequest(Message):
    group_id: str = wire(STRING)
    topics: list[DeleteStateData] = wire(array(DeleteStateData))


@message("0", flexible="0+", key=86)
class DeleteShareGroupStateResponse(Message):
    results: list[StateResult] = wire(array(StateResult))
