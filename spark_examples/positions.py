"""The start and end of a job in a topic: the options of Spark's Kafka source, from offsets or from times.

A start is in, an end is not. Offsets, and times that have a record, are settled when Spark plans the job; the first and
the last record are looked up as the reading of each partition begins, unless `minPartitions` is set.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

#: Offsets of one topic by partition; every partition has to be named.
Offsets = dict[str, int]


def between_offsets(topic: str, start: Offsets | None = None, end: Offsets | None = None) -> dict[str, str]:
    """None is the first record that is left, and the last there is."""
    return {
        "startingOffsets": json.dumps({topic: start}) if start else "earliest",
        "endingOffsets": json.dumps({topic: end}) if end else "latest",
    }


def from_time(start: datetime) -> dict[str, str]:
    """A partition without a record at or after `start` is read from its end: by default, Spark would fail there."""
    return {"startingTimestamp": _ms(start), "startingOffsetsByTimestampStrategy": "latest"}


def between_times(start: datetime | None = None, end: datetime | None = None) -> dict[str, str]:
    """By the timestamps of records. A partition without a record at or after `end` is read to its end."""
    first = from_time(start) if start else {"startingOffsets": "earliest"}
    return {**first, "endingTimestamp": _ms(end)} if end else {**first, "endingOffsets": "latest"}


def parse_time(text: str) -> datetime:
    """`2025-03-03T08:00:00Z`, or another ISO 8601 time; without a zone it is UTC."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_offsets(text: str) -> Offsets:
    """`{"0": 100, "1": 90}`, as Spark writes them."""
    return {str(partition): int(offset) for partition, offset in json.loads(text).items()}


def _ms(time: datetime) -> str:
    return str(int(time.timestamp() * 1000))
