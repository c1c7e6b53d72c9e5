"""The start and end of a job in a topic, as options of Spark's Kafka source, from offsets or from times.

A start is inclusive, an end is exclusive. Spark resolves offsets, and times that have a record, when it plans the job. It
looks up the first and the last record as it begins to read each partition, unless `minPartitions` is set.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

#: Offsets of one topic by partition; every partition must be listed.
Offsets = dict[str, int]


def between_offsets(topic: str, start: Offsets | None = None, end: Offsets | None = None) -> dict[str, str]:
    """Returns the options for a range of offsets. None is the first remaining record, and the last record."""
    return {
        "startingOffsets": json.dumps({topic: start}) if start else "earliest",
        "endingOffsets": json.dumps({topic: end}) if end else "latest",
    }


def from_time(start: datetime) -> dict[str, str]:
    """Returns the options for a start. A partition without later records is read from its end; Spark's default fails."""
    return {"startingTimestamp": _ms(start), "startingOffsetsByTimestampStrategy": "latest"}


def between_times(start: datetime | None = None, end: datetime | None = None) -> dict[str, str]:
    """Returns the options for a range of timestamps. Partitions without a record from `end` on are read to their end."""
    first = from_time(start) if start else {"startingOffsets": "earliest"}
    return {**first, "endingTimestamp": _ms(end)} if end else {**first, "endingOffsets": "latest"}


def parse_time(text: str) -> datetime:
    """Parses `2025-03-03T08:00:00Z`, or another ISO 8601 time; without a zone it is UTC."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_offsets(text: str) -> Offsets:
    """Parses `{"0": 100, "1": 90}`, Spark's format."""
    return {str(partition): int(offset) for partition, offset in json.loads(text).items()}


def _ms(time: datetime) -> str:
    return str(int(time.timestamp() * 1000))
