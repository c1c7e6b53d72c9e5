"""The listener that commits end offsets, with events as Spark has them: nothing that it meets breaks a query."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.group_offsets import Committed, committed
from odradek.admin.groups import list_groups
from odradek.admin.pipeline_progress import newest_progress
from odradek.spark.offset_listener import OffsetCommitListener, shown_error
from odradek.spark.options import InvalidOptions
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent

pytestmark = pytest.mark.usefixtures("processes")

QUERY = "b00345e5-beca-4019-a59e-345c83e086ec"
STOCK = "KafkaV2[Subscribe[orders]]"
DATA_LOSS = (
    "[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):\n"
    '  File "source.py", line 1, in partitions\n'
    "odradek.spark.planning.DataLoss: orders-0 is gone\n SQLSTATE: 38000\n=== Streaming Query ===\n"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as made:
        made.topic("orders").send(*[b"1"] * 9)
        made.topic("sales").send(*[b"1"] * 9)
        yield made


def progress(*sources: dict[str, Any], name: str | None = "report", batch: int = 3) -> QueryProgressEvent:
    text = json.dumps({"id": QUERY, "name": name, "batchId": batch, "sources": sources})
    return cast(QueryProgressEvent, SimpleNamespace(progress=SimpleNamespace(json=text)))


def ended(error: str | None) -> QueryTerminatedEvent:
    return cast(QueryTerminatedEvent, SimpleNamespace(id=QUERY, exception=error))


def source(end: object, description: str = STOCK) -> dict[str, Any]:
    return {"description": description, "endOffset": end, "processedRowsPerSecond": 2.5}


#: The error of a task, with the stacks of both languages after the line, as Spark 4.1 has it.
OF_A_TASK = (
    "[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure: Lost task 0.0 in stage 4.0: "
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "sink.py", line 1, in write\n'
    "odradek.admin.errors.ResponseError: topic sums: {}\n\n"
    "\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n\nDriver stacktrace: SQLSTATE: XXKST\n"
    "=== Streaming Query ===\n"
)


def listener(broker: odradek.Broker, groups: dict[str, str] | None = None) -> OffsetCommitListener:
    return OffsetCommitListener({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders"}, groups)


def commits(broker: odradek.Broker, group: str) -> dict[tuple[str, int], Committed]:
    with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
        return committed(admin, group)


def groups_of(broker: odradek.Broker) -> set[str]:
    with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
        return {one.group_id for one in list_groups(admin)}


def test_end_of_a_batch_of_the_connector_is_committed_to_the_group_of_the_query(broker: odradek.Broker) -> None:
    made = listener(broker)
    made.onQueryProgress(progress(source({"orders": {"0": 4}}), source('{"sales":{"0":2}}')))
    made.close()
    found = commits(broker, "odradek-query-report")
    assert {place: one.offset for place, one in found.items()} == {("orders", 0): 4, ("sales", 0): 2}
    known = newest_progress(one.metadata for one in found.values())
    assert known is not None and (known.name, known.batch, known.rows_per_s) == ("report", 3, 5.0)


def test_query_without_a_name_has_the_group_of_its_id(broker: odradek.Broker) -> None:
    made = listener(broker)
    made.onQueryProgress(progress(source({"orders": {"0": 4}}), source({"orders": {"0": 1}}), name=None))
    made.close()
    (one,) = commits(broker, "odradek-query-b00345e5").values()
    assert one.offset == 1, "two sources of a query read the partition: the slower one counts"


def test_end_of_format_odradek_is_committed_to_the_group_that_it_names(broker: odradek.Broker) -> None:
    end = {"offsets": {"orders": {"0": 5}}, "topicIds": {"orders": "x"}, "group": "odradek-query-orders-1"}
    made = listener(broker)
    made.onQueryProgress(progress(source(end, "odradek"), name="ours"))
    del end["group"]
    made.onQueryProgress(progress(source(end, "odradek"), name="without"))
    made.close()
    assert commits(broker, "odradek-query-orders-1")["orders", 0].offset == 5
    assert not {"odradek-query-ours", "odradek-query-without"} & groups_of(broker)


def test_queries_that_are_not_named_commit_nothing(broker: odradek.Broker) -> None:
    made = listener(broker, {"mine": "group of mine"})
    made.onQueryProgress(progress(source({"orders": {"0": 7}}), name="mine"))
    made.onQueryProgress(progress(source({"orders": {"0": 8}}), name="other"))
    made.close()
    assert commits(broker, "group of mine")["orders", 0].offset == 7 and "odradek-query-other" not in groups_of(broker)


def test_error_that_ends_a_query_is_beside_its_offsets(broker: odradek.Broker) -> None:
    made = listener(broker)
    made.onQueryProgress(progress(source({"orders": {"0": 4}}), name="failing"))
    made.onQueryTerminated(ended(DATA_LOSS))
    made.close()
    found = commits(broker, "odradek-query-failing")
    known = newest_progress(one.metadata for one in found.values())
    assert found["orders", 0].offset == 4 and known is not None and known.error == "orders-0 is gone"
    assert shown_error("\nJob aborted\n  at x") == "Job aborted"


@pytest.mark.parametrize(
    "message", ["The topic does not exist (UNKNOWN_TOPIC_OR_PARTITION)", "no login", "no response from 127.0.0.1:1"]
)
def test_error_of_a_task_is_shown_by_its_line(message: str) -> None:
    assert shown_error(OF_A_TASK.format(message)) == f"topic sums: {message}"


def test_sources_without_topics_and_unknown_events_reach_no_query(
    broker: odradek.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    made = listener(broker)
    before = groups_of(broker)
    for end in (None, 7, "17", {"logOffset": 3}, {"shard": {"a": 1}}, {"orders": {"0": "x"}}, {"orders": {"0": -1}}):
        made.onQueryProgress(progress(source(end), name="odd"))
    made.onQueryProgress(progress(source({"orders": {"0": 1}}, "RateStreamV2"), name="odd"))
    with caplog.at_level(logging.WARNING):
        for text in ("no json", "{}", "[]"):
            made.onQueryProgress(cast(QueryProgressEvent, SimpleNamespace(progress=SimpleNamespace(json=text))))
    made.onQueryTerminated(ended("error"))
    made.close()
    assert groups_of(broker) == before
    assert len([one for one in caplog.records if "are not committed" in one.message]) == 1


def test_listener_needs_the_address_of_the_brokers() -> None:
    with pytest.raises(InvalidOptions, match=r"'kafka\.bootstrap\.servers' must name the brokers"):
        OffsetCommitListener({"subscribe": "orders"})
