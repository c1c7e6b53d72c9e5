"""The driver ends each of a batch's transactions, whatever another one of them meets; a batch query has all rows or none."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from odradek.admin.connection import Connection
from odradek.admin.errors import NoResponse, RequestFailed, ResponseError
from odradek.admin.transactions import describe_transactions
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.sink import open_transactions
from odradek.sink.batches import Producer
from odradek.sink.ledger import Attempt
from odradek.sink.open_transactions import NotCommitted, OpenTransactions
from odradek.sink.requests import may_pass
from odradek.sink.transaction import TransactionWriter
from odradek.spark.sink import BatchWriter, Written
from odradek.spark.sink_options import SinkOptions
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.sink.intercepted_admin import InterceptedAdmin

TASKS = 12
ROWS = pa.record_batch({"value": pa.array([b"v"] * 3)})
COMMITTED, ABORTED = ("PrepareCommit", "CompleteCommit"), ("PrepareAbort", "CompleteAbort")
NO_ACCESS = ResponseError("transaction", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def written(
    admin: InterceptedAdmin, topic: str, ledger: str, run: str, tasks: Iterable[int] = range(TASKS)
) -> list[Attempt]:
    """The open transactions of tasks."""
    attempts = []
    for task in tasks:
        attempt = Attempt(task, 0, -1, -1)
        name = attempt.transactional_id(ledger, run)
        with closing(TransactionWriter(admin, name, 60_000, Producer(-1, -1), topic, 30.0)) as writer:
            writer.write(ROWS)
            writer.flush()
        attempts.append(Attempt(task, 0, *writer.producer))
    return attempts


def states(admin: InterceptedAdmin, attempts: list[Attempt], ledger: str, run: str) -> list[str]:
    names = [attempt.transactional_id(ledger, run) for attempt in attempts]
    found = describe_transactions(admin, names)
    return [found[name].state for name in names]


class Failing:
    """Fails the ends of one transaction, so often."""

    def __init__(self, name: str, error: RequestFailed, times: int) -> None:
        self._name, self._error, self._left = name, error, times
        self._lock = threading.Lock()

    def __call__(self, request: Any) -> None:
        if not isinstance(request, EndTxnRequest) or request.transactional_id != self._name:
            return
        with self._lock:
            self._left -= 1
            if self._left >= 0:
                raise self._error


@pytest.mark.parametrize("commits", [True, False])
def test_error_of_one_end_leaves_no_other_transaction_open(admin: InterceptedAdmin, topic: str, commits: bool) -> None:
    attempts = written(admin, topic, topic, "run")
    admin.before = Failing(f"{topic}.run.0.0", NO_ACCESS, 1)
    with pytest.raises(ResponseError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        OpenTransactions(admin, "the batch", topic, "run", attempts).end(commits=commits)
    first, *others = states(admin, attempts, topic, "run")
    assert first == "Ongoing" and set(others) <= set(COMMITTED if commits else ABORTED)


def test_end_is_tried_again_after_the_others(admin: InterceptedAdmin, topic: str) -> None:
    attempts = written(admin, topic, topic, "run")
    admin.before = Failing(f"{topic}.run.0.0", NoResponse("no response"), 3)
    assert OpenTransactions(admin, "the batch", topic, "run", attempts).end(commits=True) == []
    assert set(states(admin, attempts, topic, "run")) <= set(COMMITTED)


def test_end_without_a_response_is_an_error_when_the_patience_is_over(
    admin: InterceptedAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_transactions, "PATIENCE_S", 0.0)
    attempts = written(admin, topic, topic, "run", range(3))
    admin.before = Failing(f"{topic}.run.1.0", NoResponse("no response"), 99)
    with pytest.raises(NoResponse):
        OpenTransactions(admin, "the batch", topic, "run", attempts).end(commits=True)
    admin.before = lambda request: None
    assert OpenTransactions(admin, "the batch", topic, "run", attempts).end(commits=True) == []


def test_transactions_that_are_not_open_are_returned_in_their_order(admin: InterceptedAdmin, topic: str) -> None:
    attempts = written(admin, topic, topic, "run", range(4))
    OpenTransactions(admin, "the batch", topic, "run", [attempts[3], attempts[1]]).end(commits=False)
    transactions = OpenTransactions(admin, "the batch", topic, "run", attempts)
    with pytest.raises(NotCommitted, match=r"the batch took longer .*kafka\.transaction\.timeout\.ms' \(60000\)"):
        transactions.check()
    assert not transactions.is_commit_begun()
    assert transactions.end(commits=True) == [attempts[1], attempts[3]]
    assert transactions.is_commit_begun()


def test_decision_is_in_time_until_a_margin_before_the_first_time_out(admin: InterceptedAdmin, topic: str) -> None:
    attempts = written(admin, topic, topic, "run", range(2))
    assert 30 < OpenTransactions(admin, "the batch", topic, "run", attempts).check() <= 50


@pytest.fixture
def batch_writer(admin: InterceptedAdmin, monkeypatch: pytest.MonkeyPatch) -> BatchWriter:
    @contextmanager
    def intercepted(connection: Connection) -> Any:
        yield admin

    monkeypatch.setattr(Connection, "admin", intercepted)
    schema = StructType([StructField("value", BinaryType())])
    return BatchWriter(SinkOptions({}, topic="unused"), schema)


def test_batch_query_whose_commit_fails_half_way_is_committed_by_the_abort(
    admin: InterceptedAdmin, topic: str, batch_writer: BatchWriter
) -> None:
    ledger = batch_writer.name
    attempts = written(admin, topic, ledger, "", range(4))
    messages = [Written(None), None, *(Written(attempt) for attempt in attempts)]
    admin.before = Failing(f"{ledger}..2.0", NO_ACCESS, 1)
    with pytest.raises(ResponseError):
        batch_writer.commit(messages)
    batch_writer.abort(messages)
    assert set(states(admin, attempts, ledger, "")) <= set(COMMITTED)


def test_batch_query_of_which_a_transaction_has_timed_out_commits_none(
    admin: InterceptedAdmin, topic: str, batch_writer: BatchWriter
) -> None:
    ledger = batch_writer.name
    attempts = written(admin, topic, ledger, "", range(4))
    OpenTransactions(admin, "the write", ledger, "", attempts[2:3]).end(commits=False)
    messages = [Written(attempt) for attempt in attempts]
    with pytest.raises(NotCommitted, match="the write took longer than its transactions may"):
        batch_writer.commit(messages)
    batch_writer.abort(messages)
    assert set(states(admin, attempts, ledger, "")) <= set(ABORTED)


@pytest.mark.parametrize("commits", [True, False])
def test_batch_query_leaves_no_transaction_of_an_attempt_that_spark_killed(
    admin: InterceptedAdmin, topic: str, batch_writer: BatchWriter, commits: bool
) -> None:
    ledger = batch_writer.name
    killed, counted = written(admin, topic, ledger, "", [0]), written(admin, topic, ledger, "", [1])
    others = written(admin, topic, f"{ledger}.2", "", [0])
    end = batch_writer.commit if commits else batch_writer.abort
    end([Written(attempt) for attempt in counted])
    assert states(admin, killed, ledger, "") == ["Empty"]
    assert set(states(admin, counted, ledger, "")) <= set(COMMITTED if commits else ABORTED)
    assert states(admin, others, f"{ledger}.2", "") == ["Ongoing"]


def test_batch_query_is_committed_where_killed_attempts_cannot_be_listed(
    admin: InterceptedAdmin, topic: str, batch_writer: BatchWriter
) -> None:
    def before(request: Any) -> None:
        if isinstance(request, DescribeClusterRequest):
            raise NO_ACCESS

    attempts = written(admin, topic, batch_writer.name, "", range(2))
    admin.before = before
    batch_writer.commit([Written(attempt) for attempt in attempts])
    assert set(states(admin, attempts, batch_writer.name, "")) <= set(COMMITTED)


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.NETWORK_EXCEPTION, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.CORRUPT_MESSAGE, True),
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, True),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True),
        (ErrorCode.PRODUCER_FENCED, False),
        (ErrorCode.TRANSACTION_ABORTABLE, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (9_999, False),
    ],
)
def test_errors_pass_that_clients_of_kafka_retry(code: int, passes: bool) -> None:
    assert may_pass(ResponseError("topic", code)) is passes
