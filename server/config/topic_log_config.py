"""From a topic's values to what its logs obey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...storage.log.config import LogConfig

_SAME = {
    "segment_ms": "segment.ms",
    "segment_jitter_ms": "segment.jitter.ms",
    "segment_index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "preallocate": "preallocate",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "delete_retention_ms": "delete.retention.ms",
    "file_delete_delay_ms": "file.delete.delay.ms",
    "min_cleanable_dirty_ratio": "min.cleanable.dirty.ratio",
    "min_compaction_lag_ms": "min.compaction.lag.ms",
    "max_compaction_lag_ms": "max.compaction.lag.ms",
    "flush_messages": "flush.messages",
    "flush_ms": "flush.ms",
    "max_message_bytes": "max.message.bytes",
}


def log_config_of(values: Mapping[str, Any], producer_id_expiration_ms: int) -> LogConfig:
    """`values`: the effective typed values of a topic."""
    policies = values["cleanup.policy"]
    internal = values["internal.segment.bytes"]
    return LogConfig(
        segment_bytes=internal if internal is not None else values["segment.bytes"],
        compact="compact" in policies,
        delete="delete" in policies,
        producer_id_expiration_ms=producer_id_expiration_ms,
        **{field: values[name] for field, name in _SAME.items()},
    )
