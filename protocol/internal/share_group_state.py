"""Records of `__share_group_state`: states of the share partitions of share groups (KIP-932).

A snapshot (0) holds the start offset and all ranges above it with their delivery states; updates (1) hold the changes
since then, until the next snapshot. The tagged field counts completed deliveries above the start offset (KIP-1226).
"""

from __future__ import annotations

from ..schema import INT8, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@message("0", key=0)
class ShareSnapshotKey(Message):
    group_id: str = wire(STRING, "0")
    topic_id: bytes = wire(UUID, "0")
    partition: int = wire(INT32, "0")


@struct
class ShareSnapshotStateBatch(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)


@message("0", flexible="0+", key=0)
class ShareSnapshotValue(Message):
    snapshot_epoch: int = wire(INT32)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, tag=0, default=-1)
    create_timestamp: int = wire(INT64)
    write_timestamp: int = wire(INT64)
    state_batches: list[ShareSnapshotStateBatch] = wire(array(ShareSnapshotStateBatch))


@message("0", key=1)
class ShareUpdateKey(Message):
    group_id: str = wire(STRING, "0")
    topic_id: bytes = wire(UUID, "0")
    partition: int = wire(INT32, "0")


@struct
class ShareUpdateStateBatch(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)


@message("0", flexible="0+", key=1)
class ShareUpdateValue(Message):
    snapshot_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, tag=0, default=-1)
    state_batches: list[ShareUpdateStateBatch] = wire(array(ShareUpdateStateBatch))
