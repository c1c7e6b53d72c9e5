"""The configuration of a topic's logs, from its effective values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.log.config import LogConfig

if TYPE_CHECKING:
    from ...metadata.configs.key_types import TopicValues


def log_config_of(values: TopicValues, producer_id_expiration_ms: int) -> LogConfig:
    """`values`: the effective typed values of a topic."""
    policies = values["cleanup.policy"]
    internal = values["internal.segment.bytes"]
    return LogConfig(
        segment_bytes=internal if internal is not None else values["segment.bytes"],
        compact="compact" in policies,
        delete="delete" in policies,
        producer_id_expiration_ms=producer_id_expiration_ms,
        segment_ms=values["segment.ms"],
        segment_jitter_ms=values["segment.jitter.ms"],
        segment_index_bytes=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        preallocate=values["preallocate"],
        retention_ms=values["retention.ms"],
        retention_bytes=values["retention.bytes"],
        delete_retention_ms=values["delete.retention.ms"],
        file_delete_delay_ms=values["file.delete.delay.ms"],
        min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        max_compaction_lag_ms=values["max.compaction.lag.ms"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        max_message_bytes=values["max.message.bytes"],
        remote_storage=values["remote.storage.enable"],
    )
