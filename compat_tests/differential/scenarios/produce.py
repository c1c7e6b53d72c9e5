"""Produce: batches that the broker appends, and batches that it rejects."""

from __future__ import annotations

from typing import Any

from odradek.protocol.records.compression import Compression

from ..scenario import Joined, Scenario, ask, batch, prepare, scenario, send
from ..setup_steps import NO_SUCH_ID, fetched, produce, topic

_INIT = prepare("InitProducerId", transactional_id=None, transaction_timeout_ms=60_000, keep={"pid": "producer_id"})


def sequenced(first: int, *values: bytes, epoch: int = 0, **more: Any) -> dict[str, Any]:
    """The fields of a Produce request of the idempotent producer from `_INIT`."""
    made = batch(*values, producer_id="@pid", producer_epoch=epoch, base_sequence=first, **more)
    return produce(made)


def rejected(sentence: str, records: object, **more: Any) -> Scenario:
    """A scenario with a Produce that Kafka may reject."""
    return scenario("Produce", sentence, topic(), ask("Produce", **produce(records, **more)), fetched())


SCENARIOS = [
    scenario(
        "Produce",
        "batches are appended one after the other",
        topic(),
        ask("Produce", **produce(batch(b"a"))),
        ask("Produce", **produce(batch(b"b", b"c"))),
        ask("Produce", **produce(batch(b"d"), acks=1)),
        fetched(),
    ),
    scenario(
        "Produce",
        "keys headers nulls and empty values are kept",
        topic(),
        ask("Produce", **produce(batch(None, b"", b"x", keys=(b"k", None, b""), headers=(("h", b"1"), ("n", None))))),
        fetched(),
    ),
    *(
        scenario(
            "Produce",
            f"a batch by {codec.name.lower()} is stored as it came",
            topic(),
            ask("Produce", **produce(batch(b"a" * 100, b"b" * 100, compression=codec))),
            fetched(),
        )
        for codec in Compression
        if codec
    ),
    scenario(
        "Produce",
        "a topic with a codec of its own recompresses",
        topic(configs={"compression.type": "uncompressed"}),
        ask("Produce", **produce(batch(b"a" * 100, b"b" * 100, compression=Compression.LZ4))),
        fetched(),
    ),
    scenario(
        "Produce",
        "LogAppendTime stamps the batch",
        topic(configs={"message.timestamp.type": "LogAppendTime"}),
        ask("Produce", **produce(batch(b"a", b"b"))),
        fetched(),
    ),
    scenario(
        "Produce",
        "a timestamp too far ahead is refused record by record",
        topic(configs={"message.timestamp.after.max.ms": "1000"}),
        ask("Produce", **produce(batch(b"a", b"b", age_ms=-3_600_000))),
        fetched(),
    ),
    scenario(
        "Produce",
        "a timestamp too far back is refused record by record",
        topic(configs={"message.timestamp.before.max.ms": "1000"}),
        ask("Produce", **produce(batch(b"a", b"b", age_ms=3_600_000))),
        fetched(),
    ),
    scenario(
        "Produce",
        "a compacted topic refuses records without keys",
        topic(configs={"cleanup.policy": "compact"}),
        ask("Produce", **produce(batch(b"a", b"b", keys=(b"k", None)))),
        ask("Produce", **produce(batch(b"a", keys=(b"k",)))),
        fetched(),
    ),
    scenario(
        "Produce",
        "a batch above max.message.bytes is refused",
        topic(configs={"max.message.bytes": "200"}),
        ask("Produce", **produce(batch(b"x" * 300))),
        ask("Produce", **produce(batch(b"x" * 20))),
        fetched(),
    ),
    rejected("several batches for one partition in one request are refused", Joined((batch(b"a"), batch(b"b")))),
    rejected("no bytes at all are refused", b""),
    rejected("half a batch is refused", b"\0" * 30),
    rejected("a batch whose bytes do not match its CRC is refused", batch(b"abc", damage=(64, b"\xff"))),
    rejected("an unknown magic is refused", batch(b"abc", damage=(16, b"\x03"))),
    rejected("an unknown codec is refused", batch(b"abc", header={"attributes": 6})),
    rejected("a wrong count of records is refused", batch(b"a", b"b", header={"record_count": 3})),
    rejected("a wrong last offset delta is refused", batch(b"a", b"b", header={"last_offset_delta": 5})),
    rejected("a base offset other than zero is taken", batch(b"a", b"b", header={"base_offset": 7})),
    rejected("a control batch from a client is refused", batch(b"a", control=True)),
    rejected("a length beyond the bytes is refused", batch(b"a", damage=(8, b"\0\0\x10\0"))),
    rejected("a partition that does not exist is refused", batch(b"a"), partition=5),
    rejected("a negative partition is refused", batch(b"a"), partition=-1),
    rejected("acks other than 0, 1 and -1 are refused", batch(b"a"), acks=2),
    rejected("a topic that does not exist is refused", batch(b"a"), name="$none", topic_id=NO_SUCH_ID),
    rejected("a batch of a producer without a sequence is refused", batch(b"a", producer_id=5, producer_epoch=0)),
    scenario(
        "Produce",
        "acks 0 is not answered",
        topic(),
        send("Produce", on="main", **produce(batch(b"a"), acks=0)),
        ask("Metadata", topics=[]),
        fetched(),
    ),
    scenario(
        "Produce",
        "acks 0 that fails closes the connection",
        topic(),
        send("Produce", on="main", **produce(batch(b"a"), acks=0, partition=9)),
        ask("Metadata", topics=[]),
    ),
    scenario(
        "Produce",
        "an idempotent producer's batches are taken once and in order",
        topic(),
        _INIT,
        ask("Produce", **sequenced(0, b"a", b"b")),
        ask("Produce", **sequenced(2, b"c")),
        ask("Produce", **sequenced(2, b"c")),
        ask("Produce", **sequenced(0, b"a", b"b")),
        ask("Produce", **sequenced(5, b"gap")),
        ask("Produce", **sequenced(1, b"overlap")),
        fetched(),
    ),
    scenario(
        "Produce",
        "only the last five batches of a producer are remembered",
        topic(),
        _INIT,
        *(ask("Produce", **sequenced(n, b"v")) for n in range(7)),
        ask("Produce", **sequenced(6, b"v")),
        ask("Produce", **sequenced(2, b"v")),
        ask("Produce", **sequenced(1, b"v")),
        ask("Produce", **sequenced(0, b"v")),
    ),
    scenario(
        "Produce",
        "a producer may begin with any sequence where the broker knows nothing of it",
        topic(),
        _INIT,
        ask("Produce", **sequenced(9, b"a")),
        ask("Produce", **sequenced(10, b"b")),
    ),
    scenario(
        "Produce",
        "an older epoch of a producer is fenced and a newer one begins at zero",
        topic(),
        _INIT,
        ask("Produce", **sequenced(0, b"a", epoch=3)),
        ask("Produce", **sequenced(1, b"b", epoch=2)),
        ask("Produce", **sequenced(4, b"c", epoch=4)),
        ask("Produce", **sequenced(0, b"d", epoch=4)),
        fetched(),
    ),
    scenario(
        "Produce",
        "sequences wrap around after the greatest",
        topic(),
        _INIT,
        ask("Produce", **sequenced(2**31 - 2, b"a", b"b")),
        ask("Produce", **sequenced(0, b"c")),
        ask("Produce", **sequenced(0, b"c")),
    ),
    scenario(
        "Produce",
        "one request may carry good and bad partitions",
        topic(partitions=3),
        ask(
            "Produce",
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                {
                    "name": "$t",
                    "topic_id": "@t",
                    "partition_data": [
                        {"index": 0, "records": batch(b"a")},
                        {"index": 9, "records": batch(b"b")},
                        {"index": 2, "records": batch(b"c", damage=(64, b"\xff"))},
                    ],
                },
                {
                    "name": "$none",
                    "topic_id": NO_SUCH_ID,
                    "partition_data": [{"index": 0, "records": batch(b"d")}],
                },
            ],
        ),
        fetched(),
    ),
]
