"""The topic-level settings that a log obeys, with Apache Kafka 4.4's defaults. Times in milliseconds, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass

#: No limit, for the keys where Kafka uses -1 for it.
UNLIMITED = -1
_INT64_MAX = (1 << 63) - 1


@dataclass(slots=True, frozen=True)
class LogConfig:
    """Immutable: a change of a topic's settings makes another, and `log.config = other` takes effect at once.

    Share one object between the partitions of a topic.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    preallocate: bool = False
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = UNLIMITED
    compact: bool = False
    delete: bool = True
    delete_retention_ms: int = 24 * 3_600_000
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    max_message_bytes: int = 1_048_588
    #: Whether closed segments are in a remote store too (KIP-405): the log may then start before its first segment.
    remote_storage: bool = False
    #: Broker-wide in Kafka (producer.id.expiration.ms), kept here so that a log has one source of settings.
    producer_id_expiration_ms: int = 86_400_000


DEFAULT_LOG_CONFIG = LogConfig()
