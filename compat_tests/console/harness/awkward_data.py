"""A cluster whose names, values and numbers are hard to lay out: long ids, many partitions, control characters."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.cli.commands import odradek_command

#: A topic's longest name, and one of a kind that companies have.
LONG_TOPIC = "a" * 120 + "." + "b" * 100
TOPIC = "eu-west-1.payments.settlement.reconciliation.v2-enriched-with-customer-data"
WIDE_TOPIC, WIDE_PARTITIONS = "wide", 200
LONG_GROUP = "connect-a-very-long-name-of-a-consumer-group/that.has" + "-parts" * 20
#: A checkpoint of a query of Spark, and a link of the longest name to a mirrored topic.
CHECKPOINT = "a-query-of-spark" + "-with-a-long-name" * 8
LINK = "a-link_" + "x" * 57
LARGE_BYTES = 10_000_000
_FLUSH_S = 120
_VALUES = (
    b'{"customer": "c-1", "amount": "12.50", "currency": "EUR", "tags": ["a", "b"], "nested": {"deep": {"er": null}}}',
    '{"name": "Žofie Ångström", "city": "東京都千代田区", "emoji": "👩‍👩‍👧‍👦", "rtl": "שלום עולם مرحبا"}'.encode(),
    b"control \x01\x02\x1b[31m characters \x7f and a null \x00 byte",
    b"\x00\x00\x00\x00\x07\x04\xff\xfe",
    b"w" * 5_000,
    b"a text of several words " * 60,
    json.dumps({f"field-{n}-{'x' * 60}": "v" * n for n in range(60)}).encode(),
    b"",
    None,
    b"null",
    b'{"id": 123456789012345678901234567890, "p": 1.10, "a": 1, "a": 2}',
)
_KEYS = (b"k-1", "clé-日本語".encode(), b"\xff\xfe\x00", b"k" * 300, None, b"", b'{"tenant": "eu", "id": 7}')
_HEADERS = (
    [("source", b"ap/p"), ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")],
    [("h" * 80, b"v" * 200), ("empty", b""), ("null", None), ("bytes", b"\xff\x00")],
    [],
)


def fill(bootstrap: str, source: str) -> None:
    """Writes topics, records of all kinds, groups, users, rules and quotas. `source`: a cluster whose topic is mirrored."""
    _run(bootstrap, "topic", "create", LONG_TOPIC, TOPIC, "--partitions", "1")
    _run(bootstrap, "topic", "create", WIDE_TOPIC, "--partitions", str(WIDE_PARTITIONS))
    _run(bootstrap, "topic", "create", "large", "--partitions", "1", "--config", "max.message.bytes=12000000")
    _run(bootstrap, "topic", "create", "nothing", "--partitions", "1")
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 12_000_000})
    for number in range(77):
        for name in (TOPIC, LONG_TOPIC):
            producer.produce(
                name,
                _VALUES[number % len(_VALUES)],
                _KEYS[number % len(_KEYS)],
                headers=list(_HEADERS[number % len(_HEADERS)]),
            )
    for number in range(1000):
        producer.produce(WIDE_TOPIC, b'{"n": %d}' % number, partition=number % WIDE_PARTITIONS)
    producer.produce("large", json.dumps({"text": "x" * LARGE_BYTES}), b"large")
    producer.produce("large", b"y" * LARGE_BYTES, b"text")
    assert producer.flush(_FLUSH_S) == 0
    words = ("--from", source, "--topics", TOPIC.replace(".", r"\."), "--prefix", "copy.")
    _run(bootstrap, "mirror", "create", LINK, *words)
    for group in ("billing", LONG_GROUP):
        _commit(bootstrap, group)
    _run(bootstrap, "config", "set", "topic", TOPIC, "cleanup.policy=compact,delete", "retention.ms=86400000")


def write_checkpoint(folder: Path) -> None:
    """As Spark's own source of Kafka writes it."""
    offsets = {
        WIDE_TOPIC: dict.fromkeys(map(str, range(WIDE_PARTITIONS)), 1),
        LONG_TOPIC: {"0": 1},
        "deleted": {"0": 1},
    }
    for name, text in (("offsets", f"v1\n{{}}\n{json.dumps(offsets)}"), ("commits", "v1\n{}")):
        (folder / name).mkdir(parents=True)
        (folder / name / "12").write_text(text)


def _commit(bootstrap: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [(TOPIC, 0), (LONG_TOPIC, 0), *((WIDE_TOPIC, number) for number in range(WIDE_PARTITIONS))]
    try:
        consumer.commit(offsets=[TopicPartition(name, index, 1) for name, index in places], asynchronous=False)
    finally:
        consumer.close()


def _run(bootstrap: str, *words: str) -> None:
    done = odradek_command(*words, "-b", bootstrap)
    assert done.status == 0, done
