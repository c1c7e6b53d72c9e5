"""Fetch: whole batches, limits, errors, sessions (KIP-227), epochs, waiting."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, batch, prepare, receive, scenario, send
from ..setup_steps import NO_SUCH_ID, consume, fetched, produce, produced, topic


def part(partition: int, offset: int = 0, **more: Any) -> dict[str, Any]:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}


def session(epoch: int, *parts: dict[str, Any], session_id: Any = "@s", **more: Any) -> dict[str, Any]:
    """The fields of a request within a session; `parts` are the new or changed partitions."""
    topics = [{"topic": "$t", "topic_id": "@t", "partitions": list(parts)}] if parts else []
    return {
        "session_id": session_id,
        "session_epoch": epoch,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": topics,
        **more,
    }


_THREE_BATCHES: list[Step] = [produced(b"a", b"b"), produced(b"c", b"d", b"e"), produced(b"f")]
_OPENED = [
    *topic(partitions=2),
    produced(b"a"),
    ask("Fetch", **session(0, part(0), part(1), session_id=0), keep={"s": "session_id"}),
]

SCENARIOS = [
    scenario("Fetch", "an empty partition gives nothing at once when nothing is waited for", topic(), fetched()),
    scenario("Fetch", "all batches from the start", topic(), *_THREE_BATCHES, fetched(0)),
    scenario(
        "Fetch",
        "a fetch from inside a batch gives the whole batch",
        topic(),
        *_THREE_BATCHES,
        fetched(1),
        fetched(3),
        fetched(5),
    ),
    scenario("Fetch", "the end of the log is a good offset", topic(), *_THREE_BATCHES, fetched(6)),
    scenario("Fetch", "beyond the end is out of range", topic(), *_THREE_BATCHES, fetched(7), fetched(-1), fetched(-2)),
    scenario(
        "Fetch",
        "before the start of the log is out of range",
        topic(),
        *_THREE_BATCHES,
        prepare(
            "DeleteRecords",
            topics=[{"name": "$t", "partitions": [{"partition_index": 0, "offset": 3}]}],
            timeout_ms=10_000,
        ),
        fetched(2),
        fetched(3),
    ),
    scenario(
        "Fetch",
        "the first batch comes whole however small the limits",
        topic(),
        *_THREE_BATCHES,
        fetched(0, max_bytes=1),
        ask("Fetch", **{**consume(0), "max_bytes": 1}),
        ask("Fetch", **consume(0, max_bytes=0)),
    ),
    scenario(
        "Fetch",
        "limits cut after whole batches",
        topic(),
        *(produced(b"x" * 100) for _ in range(5)),
        fetched(0, max_bytes=400),
        ask("Fetch", **{**consume(0), "max_bytes": 500}),
    ),
    scenario(
        "Fetch",
        "several partitions share the limit of the request",
        topic(partitions=3),
        *(produced(b"x" * 500, partition=n) for n in range(3)),
        ask(
            "Fetch",
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=700,
            topics=[{"topic": "$t", "topic_id": "@t", "partitions": [part(0), part(1), part(2)]}],
        ),
    ),
    scenario("Fetch", "a partition that does not exist", topic(), fetched(0, partition=4), fetched(0, partition=-1)),
    scenario("Fetch", "a topic that does not exist", topic(), fetched(0, name="$none", topic_id=NO_SUCH_ID)),
    scenario("Fetch", "a topic id of zeros", topic(), fetched(0, name="", topic_id=bytes(16))),
    scenario(
        "Fetch",
        "the leader epoch of the request is checked",
        topic(),
        *_THREE_BATCHES,
        fetched(0, current_leader_epoch=0),
        fetched(0, current_leader_epoch=5),
        versions="9+",
    ),
    scenario(
        "Fetch",
        "a log that parted ways is told where",
        topic(),
        *_THREE_BATCHES,
        fetched(6, last_fetched_epoch=0),
        fetched(6, last_fetched_epoch=3),
        fetched(9, last_fetched_epoch=0),
        versions="12+",
    ),
    scenario(
        "Fetch",
        "read_committed gives the same where no transactions are",
        topic(),
        *_THREE_BATCHES,
        fetched(0, isolation_level=1),
    ),
    scenario(
        "Fetch",
        "a waiting fetch is answered by a produce",
        topic(),
        send("Fetch", on="waiting", **{**consume(0), "max_wait_ms": 10_000, "min_bytes": 1}),
        prepare("Metadata", topics=[]),
        ask("Produce", **produce(batch(b"late"))),
        receive(on="waiting"),
    ),
    scenario(
        "Fetch",
        "a waiting fetch ends empty at its deadline",
        topic(),
        ask("Fetch", **{**consume(0), "max_wait_ms": 50, "min_bytes": 1}),
        versions="12+",
    ),
    scenario(
        "Fetch",
        "an error ends the wait at once",
        topic(),
        ask("Fetch", **{**consume(99), "max_wait_ms": 10_000, "min_bytes": 1}),
    ),
    scenario(
        "Fetch",
        "a session tells only what is new",
        _OPENED,
        ask("Fetch", **session(1)),
        ask("Fetch", **session(2, part(0, 1))),
        prepare("Produce", **produce(batch(b"b"), partition=1)),
        ask("Fetch", **session(3)),
        versions="7+",
    ),
    scenario(
        "Fetch",
        "a partition can leave a session",
        _OPENED,
        ask("Fetch", **session(1, forgotten_topics_data=[{"topic": "$t", "topic_id": "@t", "partitions": [1]}])),
        prepare("Produce", **produce(batch(b"b"), partition=1)),
        ask("Fetch", **session(2, part(0, 0))),
        versions="7+",
    ),
    scenario(
        "Fetch",
        "a wrong epoch of a session is refused and the session goes on",
        _OPENED,
        ask("Fetch", **session(5)),
        ask("Fetch", **session(1, part(0, 0))),
        versions="7+",
    ),
    scenario(
        "Fetch",
        "a session that was never made is not found",
        topic(),
        ask("Fetch", **session(1, part(0), session_id=123456)),
        versions="7+",
    ),
    scenario(
        "Fetch",
        "a closed session is not found any more",
        _OPENED,
        ask("Fetch", **session(-1)),
        ask("Fetch", **session(1)),
        versions="7+",
    ),
    scenario(
        "Fetch",
        "errors are told again and again within a session",
        _OPENED,
        ask("Fetch", **session(1, part(1, 77))),
        ask("Fetch", **session(2)),
        versions="7+",
    ),
    scenario(
        "Fetch",
        "a session tells of topics that are not there",
        topic(),
        ask(
            "Fetch",
            session_id=0,
            session_epoch=0,
            max_wait_ms=0,
            topics=[
                {"topic": "$t", "topic_id": "@t", "partitions": [part(0), part(9)]},
                {"topic": "$none", "topic_id": NO_SUCH_ID, "partitions": [part(0)]},
            ],
            keep={"s": "session_id"},
        ),
        versions="7+",
    ),
    scenario("Fetch", "nothing asked, nothing given", ask("Fetch", max_wait_ms=0, min_bytes=0, topics=[])),
    scenario(
        "Fetch", "a client may not pose as a replica it is not", topic(), fetched(0, replica_id=7), versions="0-14"
    ),
]
