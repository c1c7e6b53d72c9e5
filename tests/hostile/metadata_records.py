"""Hostile records of `__remote_log_metadata`, by class: random bytes, valid events that are cut or changed, events of states
that cannot be, unknown types and versions.
"""

from __future__ import annotations

import random

from odradek.protocol.varint import encode_varint
from odradek.tiers.events import DamagedMetadata, decode_event, encode_event
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

FAR = (1 << 63) - 1


def valid_event(rng: random.Random, partition: TopicIdPartition) -> RemoteLogMetadata:
    """Returns an event of a segment that no node has copied, or of the deletion of the partition."""
    segment_id = rng.randbytes(16)
    kind = rng.randrange(3)
    if kind == 0:
        start = rng.randrange(1 << 40)
        return RemoteLogSegmentMetadata(
            partition, segment_id, start, start + rng.randrange(1000), rng.randrange(1 << 41), 1, 0,
            rng.randrange(1 << 30), ((rng.randrange(9), start),), custom_metadata=rng.randbytes(49),
        )  # fmt: skip
    if kind == 1:
        return RemoteLogSegmentMetadataUpdate(partition, segment_id, 1, 0, COPY_SEGMENT_FINISHED)
    return RemotePartitionDeleteMetadata(partition, 1, 0, rng.choice(list(RemotePartitionDeleteState)))


def _random_bytes(rng: random.Random, partition: TopicIdPartition) -> bytes | None:
    return rng.choice([None, b"", rng.randbytes(rng.randrange(1, 300)), b"\x00" * rng.randrange(1, 2000)])


def _cut(rng: random.Random, partition: TopicIdPartition) -> bytes:
    value = encode_event(valid_event(rng, partition))
    return value[: rng.randrange(len(value))]


def _longer(rng: random.Random, partition: TopicIdPartition) -> bytes:
    return encode_event(valid_event(rng, partition)) + rng.randbytes(rng.randrange(1, 50))


def _changed(rng: random.Random, partition: TopicIdPartition) -> bytes:
    value = bytearray(encode_event(valid_event(rng, partition)))
    for _ in range(rng.randrange(1, 6)):
        value[rng.randrange(len(value))] = rng.randrange(256)
    return bytes(value)


def _unknown_kind(rng: random.Random, partition: TopicIdPartition) -> bytes:
    value = encode_event(valid_event(rng, partition))
    heads = [
        (1, rng.randrange(4, 300), 0),
        (1, rng.randrange(3), rng.randrange(1, 99)),
        (rng.randrange(2, 99), 0, 0),
    ]
    return b"".join(encode_varint(one) for one in rng.choice(heads)) + value[3:]


def _impossible(rng: random.Random, partition: TopicIdPartition) -> bytes:
    start = rng.randrange(1 << 40)
    segment = RemoteLogSegmentMetadata(partition, rng.randbytes(16), start, start + 9, 0, 1, 0, 100, ((1, start),))
    changes: list[RemoteLogSegmentMetadata] = [
        segment._replace(end_offset=start - 1), segment._replace(start_offset=-5), segment._replace(size_bytes=-1),
        segment._replace(end_offset=FAR), segment._replace(epochs=()), segment._replace(epochs=((-3, start),)),
        segment._replace(epochs=((1, start), (2, start + 50))), segment._replace(segment_id=bytes(16)),
        segment._replace(custom_metadata=bytes(70_000)), segment._replace(partition=partition._replace(topic="../x")),
        segment._replace(partition=partition._replace(partition=-1)),
        segment._replace(partition=partition._replace(topic_id=bytes(16))),
    ]  # fmt: skip
    return encode_event(rng.choice(changes))


KINDS = (_random_bytes, _cut, _longer, _changed, _unknown_kind, _impossible)


def hostile_record(rng: random.Random, partition: TopicIdPartition) -> bytes | None:
    """Returns the value of a record that no node can read."""
    while True:
        value = rng.choice(KINDS)(rng, partition)
        try:
            decode_event(value or b"")
        except DamagedMetadata:
            return value
