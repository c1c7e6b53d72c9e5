"""librdkafka as a load program of transactions, offset commits and leaving members.

    python transaction_load.py transact|offsets|death BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]

`per=N` is the number of records of a transaction, or of members of a group. Prints a line of JSON, as rdkafka_load.py does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TIMEOUT_S = 60.0
#: Offset commits in flight.
IN_FLIGHT = 100
#: The shortest that both brokers allow by default.
SESSION_MS = 6_000
_POLL_S = 0.002


def percentiles(latencies: list[float]) -> dict[str, float]:
    ordered = sorted(latencies)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100]}


def transact(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    """Runs transactions of `per` records, one after the other; the latency is that of commit_transaction."""
    per = int(settings["per"])
    common = {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 100_000, "linger.ms": 5}
    producer = Producer({**common, "transactional.id": f"bench-{uuid.uuid4()}"})
    producer.init_transactions(TIMEOUT_S)
    value = os.urandom(size // 2).hex().encode().ljust(size, b"x")
    # The topic is created, and its partition has a leader, before the time runs.
    _one(producer, topic, value, 1)
    latencies = []
    started = time.perf_counter()
    for _ in range(records // per):
        latencies.append(_one(producer, topic, value, per))
    seconds = time.perf_counter() - started
    return {"records": records // per * per, "seconds": seconds, "latency_ms": percentiles(latencies)}


def _one(producer: Producer, topic: str, value: bytes, count: int) -> float:
    """Runs a transaction. Returns the time of its commit alone in ms: its records are acknowledged before."""
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, value)
    producer.flush(TIMEOUT_S)
    began = time.perf_counter()
    producer.commit_transaction(TIMEOUT_S)
    return (time.perf_counter() - began) * 1000


def offsets(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    """Commits offsets as one member, IN_FLIGHT at once."""
    make_topic(bootstrap, topic, 1)
    answered = 0

    def committed(error: Any, _: Any) -> None:
        nonlocal answered
        assert error is None, error
        answered += 1

    group = {"group.id": topic, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **group, "on_commit": committed})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    answered = sent = 0
    started = time.perf_counter()
    while answered < records:
        while sent < records and sent - answered < IN_FLIGHT:
            sent += 1
            consumer.commit(offsets=[TopicPartition(topic, 0, sent)], asynchronous=True)
        consumer.poll(_POLL_S)
    seconds = time.perf_counter() - started
    consumer.close()
    return {"records": records, "seconds": seconds}


def death(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    """Measures from the end of a member until the `per` - 1 others have all `records` partitions.

    how=killed: the member is killed, and most of the time is that of its session, which no broker can shorten.
    how=leaves: the member leaves the group.
    """
    killed = settings.pop("how") == "killed"
    members = int(settings.pop("per"))
    make_topic(bootstrap, topic, records)
    staying = [_member(bootstrap, topic, settings) for _ in range(members - 1)]
    for one in staying:
        one.poll(0)
    words = [sys.executable, __file__, "member", bootstrap, topic, "0", "0", *map("=".join, settings.items())]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as going:
        _until(staying, lambda have: 0 < have < records and all(one.assignment() for one in staying), settle_s=3)
        began = time.perf_counter()
        if killed:
            going.kill()
        elif going.stdin is not None:
            going.stdin.close()
        _until(staying, lambda have: have == records, settle_s=0)
        took_ms = (time.perf_counter() - began) * 1000
    return {"records": records, "seconds": took_ms / 1000, "latency_ms": {"p50": took_ms, "p99": took_ms}}


def _member(bootstrap: str, topic: str, settings: dict[str, str]) -> Consumer:
    # Members learn of a rebalance by their heartbeats: a long interval would dominate the figure.
    classic = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 50}
    own = settings if settings.get("group.protocol") == "consumer" else {**classic, **settings}
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False, **own})
    member.subscribe([topic])
    return member


def member(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    """The member that goes: it leaves when its standard input ends, or is killed."""
    import select

    consumer = _member(bootstrap, topic, settings)
    # The consumer leaves without delay: a longer poll would be part of the figure.
    while not select.select([sys.stdin], [], [], 0)[0]:
        consumer.poll(_POLL_S)
    consumer.close()
    return {}


def _until(members: list[Consumer], holds: Any, settle_s: float) -> None:
    """Polls all members until `holds` is true of their number of partitions, and stays true for `settle_s`."""
    give_up = time.perf_counter() + 180
    since = None
    while since is None or time.perf_counter() - since < settle_s:
        for one in members:
            one.poll(0)
        is_so = holds(sum(len(one.assignment()) for one in members))
        since = (since or time.perf_counter()) if is_so else None
        assert time.perf_counter() < give_up, "the group did not settle"
        time.sleep(_POLL_S)


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT_S)


LOADS = {"transact": transact, "offsets": offsets, "death": death, "member": member}


def main() -> None:
    what, bootstrap, topic, records, size, *rest = sys.argv[1:]
    settings = dict(text.split("=", 1) for text in rest)
    print(json.dumps(LOADS[what](bootstrap, topic, int(records), int(size), settings)), flush=True)
    # Fifty consumers that leave one after the other cause fifty rebalances, and librdkafka's close may wait forever for an
    # assignment that arrives meanwhile.
    os._exit(0)


if __name__ == "__main__":
    main()
