"""The settings of a topic that concern producers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from ...protocol.records.compression import Compression

if TYPE_CHECKING:
    from ...metadata.configs.key_types import TopicValues
    from ...protocol.records.batch import BatchHeader
    from ...storage.log.config import LogConfig

FOREVER_MS = (1 << 63) - 1

_CODECS = {"gzip": Compression.GZIP, "snappy": Compression.SNAPPY, "lz4": Compression.LZ4, "zstd": Compression.ZSTD}

#: A thread checks a larger batch, and the loop writes it in parts: to do both at once would hold the loop for a
#: millisecond a megabyte. With the default `max.message.bytes` there is none. The frame of such a batch has a buffer of
#: its own, larger than the one that connections share, so that the batch is not copied for the thread.
LARGE_BATCH_BYTES = 1 << 21


class Validation(IntEnum):
    """`odradek.produce.validation`: each level includes the checks of the levels before it."""

    #: The header and the CRC.
    HEADER = 0
    #: The records of batches that are not compressed.
    FRAMING = 1
    #: The records of every batch.
    FULL = 2


@dataclass(frozen=True, slots=True)
class AppendRules:
    """A topic's settings that concern producers. Shared by its partitions."""

    #: None keeps the codec that the producer chose.
    compression: Compression | None
    level: int | None
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compact: bool
    min_insync_replicas: int
    max_message_bytes: int
    max_decompressed_bytes: int
    segment_bytes: int

    validation: Validation = Validation.FULL
    #: The link that the topic follows: it is read-only for clients. "" for none.
    mirror: str = ""
    #: The codecs of the batches whose records are checked in any case: a bit for each.
    checked_codecs: int = field(init=False)
    #: Whether a valid batch is written unchanged, and the size up to which it is checked at once.
    is_plain: bool = field(init=False)
    most_plain_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_plain", self.compression is None and not self.log_append_time)
        most_bytes = min(self.max_message_bytes, self.segment_bytes, LARGE_BATCH_BYTES)
        object.__setattr__(self, "most_plain_bytes", most_bytes)
        is_checked = (self.validation >= (Validation.FULL if codec else Validation.FRAMING) for codec in Compression)
        codecs = sum(1 << codec for codec, checked in zip(Compression, is_checked) if checked or self.needs_records)
        object.__setattr__(self, "checked_codecs", codecs)

    @property
    def needs_records(self) -> bool:
        """Returns whether the topic's own rules concern single records."""
        return self.compact or (self.timestamp_before_max_ms != FOREVER_MS and not self.log_append_time)

    def opens(self, header: BatchHeader, now_ms: int) -> bool:
        """Returns whether the records of a batch are checked."""
        codec = header.compression
        assert codec is not None, "checked with the header"
        if self.checked_codecs >> codec & 1:
            return True
        if self.compression is not None and self.compression is not codec:
            return True
        return not self.log_append_time and header.max_timestamp - now_ms > self.timestamp_after_max_ms


def append_rules(values: TopicValues, config: LogConfig, validation: str = "full") -> AppendRules:
    """Builds the rules from a topic's typed values and the broker's `odradek.produce.validation`."""
    name = values["compression.type"]
    codec = None if name == "producer" else _CODECS.get(name, Compression.NONE)
    return AppendRules(
        compression=codec,
        level=_level(values, codec),
        log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        compact=config.compact,
        min_insync_replicas=values["min.insync.replicas"],
        max_message_bytes=config.max_message_bytes,
        max_decompressed_bytes=values["max.decompressed.message.bytes"],
        segment_bytes=config.segment_bytes,
        validation=Validation[validation.upper()],
        mirror=values["mirror.name"] or "",
    )


def _level(values: TopicValues, codec: Compression | None) -> int | None:
    """Returns the level of a codec; None for one without levels."""
    if codec is Compression.GZIP:
        return values["compression.gzip.level"]
    if codec is Compression.LZ4:
        return values["compression.lz4.level"]
    return values["compression.zstd.level"] if codec is Compression.ZSTD else None
