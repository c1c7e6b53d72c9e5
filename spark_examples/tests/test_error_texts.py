"""Errors of real queries end in one line of ours, after Spark's words and Python's stack: each kind, for source and sink."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.topic_changes import delete_records
from odradek.spark.offset_listener import shown_error
from pyspark.sql import SparkSession

from spark_examples.tests.late_process import error_of

LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "admin",
    "kafka.sasl.password": "hunter2",
}
TEXT = "value binary"
OPTIONS, CLUSTER = "odradek.spark.options.InvalidOptions: ", "odradek.columns.cluster_errors.ClusterError: "


class Mistake(NamedTuple):
    """`line`: the beginning of the error's last line; `server`: of the brokers below."""

    line: str
    options: dict[str, str] = {}
    server: str = "open"
    schema: str = TEXT


READING = {
    "topic": Mistake(CLUSTER + "topic nowhere: The topic or partition does not exist", {"subscribe": "nowhere"}),
    "login": Mistake(CLUSTER, LOGIN, "secured"),
    "silent": Mistake(CLUSTER + "no response from ", server="silent"),
    "gone": Mistake(
        "odradek.spark.planning.DataLoss: orders-0: offset 0 is gone: the log starts at 2",
        {"startingOffsets": '{"orders":{"0":0}}'},
    ),
    "after the end": Mistake(
        "odradek.spark.planning.DataLoss: orders-0: the log ends at 3, before offset 9",
        {"startingOffsets": '{"orders":{"0":9}}'},
    ),
    "schema": Mistake(OPTIONS + "schema: there is no column 'amount'", schema="amount long"),
    "limit": Mistake(OPTIONS + "Option 'maxOffsetsPerTrigger' needs Spark 4.2", {"maxOffsetsPerTrigger": "5"}),
}
WRITING = {
    "topic": Mistake("odradek.admin.errors.ResponseError: topic no topic: ", {"topic": "no topic"}),
    "login": Mistake("odradek.", LOGIN, "secured"),
    "silent": Mistake("odradek.client.errors.NoResponse: no response from ", server="silent"),
    "schema": Mistake(OPTIONS + "Required attribute 'value' not found", schema="amount binary"),
}


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    plain = odradek.Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN")
    with (
        odradek.Broker() as broker,
        odradek.Broker(security=plain) as secured,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        broker.topic("orders").send(b"0", b"1", b"2")
        with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
            delete_records(admin, {("orders", 0): 2})
        host, port = silent.getsockname()
        yield {"open": broker.bootstrap_servers, "secured": secured.bootstrap_servers, "silent": f"{host}:{port}"}


def last_line(text: str) -> str:
    """The end of what Python has sent. Spark adds its state, the stack of a task, and the plan of a query."""
    python = text.partition("\n SQLSTATE")[0].partition("\n\tat ")[0]
    return python.rstrip().rpartition("\n")[2]


@pytest.mark.parametrize("kind", READING)
def test_error_of_a_stream_ends_in_its_line(
    spark: SparkSession, servers: dict[str, str], tmp_path: Path, kind: str
) -> None:
    mistake = READING[kind]
    given = {"subscribe": "orders", "startingOffsets": "earliest", **mistake.options}
    source = spark.readStream.format("odradek").schema(mistake.schema)
    frame = source.options(**given, **{"kafka.bootstrap.servers": servers[mistake.server]}).load()
    sink = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    text = error_of(lambda: sink.start().awaitTermination())
    assert last_line(text).startswith(mistake.line)
    assert shown_error(text) == last_line(text).partition(": ")[2] and "hunter2" not in text


@pytest.mark.parametrize("kind", WRITING)
def test_error_of_a_written_stream_ends_in_its_line(
    spark: SparkSession, servers: dict[str, str], tmp_path: Path, kind: str
) -> None:
    mistake = WRITING[kind]
    source = spark.readStream.format("odradek").option("kafka.bootstrap.servers", servers["open"])
    frame = source.option("subscribe", "orders").option("startingOffsets", "earliest").schema(TEXT).load()
    given = {"topic": "sums", **mistake.options, "kafka.bootstrap.servers": servers[mistake.server]}
    sink = frame.toDF(mistake.schema.partition(" ")[0]).writeStream.format("odradek").options(**given)
    started = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    text = error_of(lambda: started.start().awaitTermination())
    assert last_line(text).startswith(mistake.line)
    assert shown_error(text) == last_line(text).partition(": ")[2] and "hunter2" not in text
