"""ListOffsets: the special timestamps and the search by time."""

from __future__ import annotations

from typing import Any

from ..scenario import Joined, Step, ask, batch, prepare, scenario
from ..setup_steps import produce, produced, topic

#: Latest, earliest, greatest timestamp, earliest local, latest tiered, earliest not yet uploaded.
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6


def offsets(timestamp: int, *, name: str = "$t", partition: int = 0, epoch: int = -1, **more: Any) -> Step:
    wanted = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    return ask("ListOffsets", replica_id=-1, topics=[{"name": name, "partitions": [wanted]}], **more)


_RECORDS = [produced(b"a", b"b", age_ms=50_000, step_ms=10_000), produced(b"c", age_ms=45_000)]

SCENARIOS = [
    scenario("ListOffsets", "the end of a log", topic(), *_RECORDS, offsets(LATEST)),
    scenario("ListOffsets", "the start of a log", topic(), *_RECORDS, offsets(EARLIEST)),
    scenario("ListOffsets", "the ends of an empty log", topic(), offsets(LATEST), offsets(EARLIEST), offsets(0)),
    scenario(
        "ListOffsets",
        "the start after records were deleted",
        topic(),
        *_RECORDS,
        prepare(
            "DeleteRecords",
            topics=[{"name": "$t", "partitions": [{"partition_index": 0, "offset": 2}]}],
            timeout_ms=10_000,
        ),
        offsets(EARLIEST),
        offsets(0),
    ),
    scenario(
        "ListOffsets",
        "the record with the greatest timestamp",
        topic(),
        *_RECORDS,
        offsets(MAX_TIMESTAMP),
        versions="7+",
    ),
    scenario("ListOffsets", "the greatest timestamp of an empty log", topic(), offsets(MAX_TIMESTAMP), versions="7+"),
    scenario("ListOffsets", "the earliest local offset", topic(), *_RECORDS, offsets(EARLIEST_LOCAL), versions="8+"),
    scenario(
        "ListOffsets",
        "the latest tiered offset where nothing is tiered",
        topic(),
        *_RECORDS,
        offsets(LATEST_TIERED),
        versions="9+",
    ),
    scenario(
        "ListOffsets",
        "the earliest offset to be uploaded",
        topic(),
        *_RECORDS,
        offsets(EARLIEST_PENDING),
        versions="11+",
    ),
    scenario(
        "ListOffsets",
        "special timestamps of later versions in earlier ones",
        topic(),
        *_RECORDS,
        *(offsets(timestamp) for timestamp in (MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING, -7)),
    ),
    scenario("ListOffsets", "the first record is found by time zero", topic(), *_RECORDS, offsets(0), offsets(1)),
    scenario("ListOffsets", "no record is so late", topic(), *_RECORDS, offsets(2**62)),
    scenario(
        "ListOffsets",
        "read_committed ends where read_uncommitted does without transactions",
        topic(),
        *_RECORDS,
        offsets(LATEST, isolation_level=1),
        offsets(0, isolation_level=1),
    ),
    scenario(
        "ListOffsets",
        "a partition that does not exist",
        topic(),
        offsets(LATEST, partition=3),
        offsets(LATEST, partition=-1),
    ),
    scenario("ListOffsets", "a topic that does not exist", offsets(LATEST, name="$none")),
    scenario(
        "ListOffsets",
        "the leader epoch of the request is checked",
        topic(),
        offsets(LATEST, epoch=0),
        offsets(LATEST, epoch=4),
        versions="4+",
    ),
    scenario(
        "ListOffsets",
        "one partition may be asked for once only",
        topic(partitions=2),
        ask(
            "ListOffsets",
            replica_id=-1,
            topics=[
                {
                    "name": "$t",
                    "partitions": [
                        {"partition_index": 0, "timestamp": -1},
                        {"partition_index": 0, "timestamp": -2},
                        {"partition_index": 1, "timestamp": -1},
                    ],
                }
            ],
        ),
    ),
    scenario(
        "ListOffsets",
        "times within a batch are found record by record",
        topic(),
        prepare("Produce", **produce(Joined((batch(b"a", b"b", b"c", age_ms=0, step_ms=0),)))),
        offsets(1_000_000_000_000),
        offsets(MAX_TIMESTAMP),
        versions="7+",
    ),
]
