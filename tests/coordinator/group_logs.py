"""A shard out of its log in the way that a broker loads it: batches, of which the last record of each key counts."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.coordinator.loading import ShardLoader
from odradek.coordinator.result import GroupsConfig
from odradek.coordinator.shard import GroupShard
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.protocol.records.record import Record, encode_batch

#: Key and value; None is a tombstone's.
LogRecord = tuple[bytes, bytes | None]


def load(config: GroupsConfig, log: Sequence[LogRecord], now: int, image: MetadataImage = EMPTY_IMAGE) -> GroupShard:
    loader = ShardLoader(config, "__consumer_offsets-0")
    loader.shard.state.image = image
    if log:
        loader.feed(encode_batch([Record(offset, now, key, value) for offset, (key, value) in enumerate(log)]))
    return loader.loaded(len(log), now)
