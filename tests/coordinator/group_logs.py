"""Loading of a shard from its log as a broker does it: batches, with the last record of each key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.protocol.records.record import Record, encode_batch

from tests.coordinator.harness.kinds import new_loader

#: Key and value; None for a tombstone.
LogRecord = tuple[bytes, bytes | None]


def load(config: GroupsConfig, log: Sequence[LogRecord], now: int, image: MetadataImage = EMPTY_IMAGE) -> GroupShard:
    """Loads a shard from records in one batch."""
    return load_batches(config, [log], now, image)


def load_batches(
    config: GroupsConfig, batches: Iterable[Sequence[LogRecord]], now: int, image: MetadataImage = EMPTY_IMAGE
) -> GroupShard:
    """Loads a shard from batches. A broker appends the records of one turn as one batch, never splitting a decision."""
    loader = new_loader(config, "__consumer_offsets-0")
    loader.shard.state.image = image
    end = 0
    for batch in batches:
        if batch:
            records = [Record(end + index, now, key, value) for index, (key, value) in enumerate(batch)]
            loader.feed(encode_batch(records))
            end += len(batch)
    return loader.loaded(end, now)


def compacted(batches: Sequence[Sequence[LogRecord]]) -> list[list[LogRecord]]:
    """Returns the batches after compaction of closed segments, with tombstones (delete.retention.ms)."""
    last = {key: (index, place) for index, batch in enumerate(batches) for place, (key, _) in enumerate(batch)}
    left = (
        [record for place, record in enumerate(batch) if last[record[0]] == (index, place)]
        for index, batch in enumerate(batches)
    )
    return [batch for batch in left if batch]
