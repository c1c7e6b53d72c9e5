"""Errors of `format("odradek")` as Spark shows them: the text of each ends in one line that names the mistake."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import odradek
import pytest
from odradek.spark.source import OdradekSource
from pyspark.sql.types import BinaryType, LongType, StructType

pytestmark = pytest.mark.usefixtures("processes")

SCHEMA = StructType().add("offset", LongType()).add("value", BinaryType())
ROWS = StructType().add("value", BinaryType())

Mistake = tuple[dict[str, str], str]
READING: list[Mistake] = [
    ({"startingOffset": "latest"}, "has no option 'startingoffset'; did you mean 'startingOffsets'?"),
    ({"subscribe": "nowhere"}, "topic nowhere: The topic or partition does not exist"),
    ({"assign": '{"orders":[7]}', "subscribe": ""}, "topic orders has no partition 7"),
    ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "cannot connect to 127.0.0.1:1"),
    ({"kafka.bootstrap.servers": "nowhere"}, "is not HOST:PORT"),
    ({"kafka.security.protocol": "SSL", "kafka.ssl.ca.location": "/nowhere.pem"}, "the TLS files cannot be used"),
    ({"kafka.security.protocol": "SASL_SSL"}, "has no TLS, and security.protocol is SASL_SSL"),
    ({"kafka.security.protocol": "PLAIN"}, "security.protocol"),
    ({"startingOffsets": '{"orders":{"0":0,"5":0}}'}, "you must specify all TopicPartitions"),
]
BATCHES: list[Mistake] = [
    ({"endingOffsets": '{"orders":{"0":900}}'}, "the log ends at 3, before offset 900"),
    ({"startingTimestamp": "99999999999999"}, "No offset matched"),
]
WRITING: list[Mistake] = [
    ({"partitioner": "mine"}, "Option 'partitioner' takes java or librdkafka"),
    ({"topic": ""}, "topic option required"),
    ({"kafka.acks": "1"}, "Kafka option 'acks' is not supported"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as made:
        made.topic("orders").send(b"1", b"2", b"3")
        yield made


def given(broker: odradek.Broker, changed: dict[str, str], **others: str) -> dict[str, str]:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, **others, **changed}
    return {name: value for name, value in options.items() if value}


def last_line(step: Callable[[], Any]) -> str:
    """The last line of the text that Spark's Python processes send to the JVM."""
    try:
        step()
    except Exception:
        return traceback.format_exc().rstrip("\n").rpartition("\n")[2]
    raise AssertionError("there was no error")


@pytest.mark.parametrize(("changed", "message"), [*READING, *BATCHES])
def test_error_of_a_batch_ends_in_one_line(broker: odradek.Broker, changed: dict[str, str], message: str) -> None:
    line = last_line(lambda: OdradekSource(given(broker, changed, subscribe="orders")).reader(SCHEMA).partitions())
    assert line.startswith("odradek.") and message in line


@pytest.mark.parametrize(("changed", "message"), READING)
def test_error_of_a_stream_ends_in_one_line(broker: odradek.Broker, changed: dict[str, str], message: str) -> None:
    line = last_line(
        lambda: OdradekSource(given(broker, changed, subscribe="orders")).streamReader(SCHEMA).latestOffset()
    )
    assert line.startswith("odradek.") and message in line


@pytest.mark.parametrize(("changed", "message"), WRITING)
def test_error_of_a_sink_ends_in_one_line(broker: odradek.Broker, changed: dict[str, str], message: str) -> None:
    line = last_line(lambda: OdradekSource(given(broker, changed, topic="orders")).writer(ROWS, False))
    assert line.startswith("odradek.") and message in line


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "cannot connect to 127.0.0.1:1"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.ca.location": "/nowhere.pem"}, "the TLS files cannot be used"),
    ],
)
def test_error_of_a_ledger_ends_in_one_line(broker: odradek.Broker, changed: dict[str, str], message: str) -> None:
    options = given(broker, changed, topic="orders", ledger="mine")
    line = last_line(lambda: OdradekSource(options).streamWriter(ROWS, False))
    assert line.startswith("odradek.") and message in line
