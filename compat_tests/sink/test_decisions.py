"""A batch of the sink is in the topic once, whichever step of its end a driver dies before: on Odradek and Apache Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from odradek.admin.session import Admin
from odradek.client.cluster import Address, Cluster
from odradek.protocol.records.compression import Compression
from odradek.sink import decision
from odradek.sink.batches import Producer
from odradek.sink.decision import Decisions, Torn, WrittenBatch
from odradek.sink.ledger import Attempt, Ledger, ledger_id
from odradek.sink.open_transactions import NotCommitted
from odradek.sink.requests import NotOpen, end, read_ledger, take_id, write_ledger
from odradek.sink.transaction import TransactionWriter

from compat_tests.broker_process import BrokerProcess
from compat_tests.recipes import eventually, is_end_of_partition, make_topic

pytestmark = pytest.mark.timeout(240)
PARTITIONS, TASKS, ROWS = 3, 3, 40
#: Steps of `Decisions.commit`, and how often each comes until the last.
STEPS = ("take", "write", "decide", "end", "end one", "note", "clear")
LONG_MS, SHORT_MS = 60_000, 1_000
_numbers = count()


class Died(BaseException):
    """Stands for the end of the process: nothing after it runs."""


@pytest.fixture(scope="module", params=["odradek", "apache_kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    running: BrokerProcess = request.getfixturevalue(request.param)
    return running.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    host, _, port = bootstrap.rpartition(":")
    with closing(Admin(Cluster([Address(host, int(port))], "tests", 30.0), 30.0, 30.0)) as made:
        yield made


class Query:
    """A query with its topic and ledger, whose tasks and drivers run here."""

    def __init__(self, admin: Admin, bootstrap: str, name: str = "") -> None:
        self.name = name or f"query-{next(_numbers)}"
        self.admin, self.bootstrap = admin, bootstrap
        make_topic(bootstrap, self.name, PARTITIONS)

    def task(self, number: int, run: str, batch: int, timeout_ms: int = LONG_MS, attempt: int = 0) -> Attempt:
        """The transaction of a task, with the same rows in each run."""
        made = Attempt(number, attempt, -1, -1)
        how = Producer(-1, -1, Compression.LZ4)
        writer = TransactionWriter(self.admin, made.transactional_id(self.name, run), timeout_ms, how, self.name, 30.0)
        with closing(writer):
            texts = [f"{batch}-{number}-{row}".encode() for row in range(ROWS)]
            writer.write(pa.record_batch({"key": pa.array(texts), "value": pa.array(texts)}))
            writer.flush()
        return Attempt(number, attempt, *writer.producer)

    def batch(self, run: str, number: int, timeout_ms: int = LONG_MS) -> WrittenBatch:
        attempts = tuple(self.task(task, run, number, timeout_ms) for task in range(TASKS))
        return WrittenBatch(number, "query", run, attempts)

    def decisions(self, before: Callable[[str], None] | None = None, *, skips_expired: bool = False) -> Decisions:
        made = Decisions(self.admin, self.name, (self.name, 0), skips_expired=skips_expired)
        made.before = before or made.before
        return made

    def committed(self) -> list[str]:
        """The records that a reader of committed ones has when no transaction is open."""
        found = []
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
        with closing(Consumer({**settings, "enable.partition.eof": True})) as consumer:
            consumer.assign([TopicPartition(self.name, index, 0) for index in range(PARTITIONS)])
            ended: set[int] = set()
            while len(ended) < PARTITIONS:
                message = consumer.poll(30)
                assert message is not None
                if is_end_of_partition(message):
                    ended.add(message.partition())
                else:
                    found.append((message.value() or b"").decode())
        return sorted(found)

    def has_open_transactions(self) -> bool:
        return bool(self.decisions().open_attempts())


def rows(*batches: int) -> list[str]:
    return sorted(f"{batch}-{task}-{row}" for batch in batches for task in range(TASKS) for row in range(ROWS))


@pytest.fixture
def query(admin: Admin, bootstrap: str) -> Query:
    return Query(admin, bootstrap)


def dies_before(step: str, times: int) -> Callable[[str], None]:
    """Ends the process before a step comes for the given time."""
    left = [times]
    lock = threading.Lock()

    def before(name: str) -> None:
        with lock:
            if name == step:
                left[0] -= 1
            if left[0] <= 0:
                raise Died(name)

    return before


@pytest.mark.parametrize(("step", "times"), [(step, 1) for step in STEPS] + [("end one", 2), ("end one", 3)])
@pytest.mark.parametrize("same_run", [False, True], ids=["new-run", "same-run"])
def test_batch_is_there_once_whichever_step_its_driver_dies_before(
    query: Query, step: str, times: int, same_run: bool
) -> None:
    query.decisions().commit(query.batch("run-a", 0))
    with pytest.raises(Died):
        query.decisions(dies_before(step, times)).commit(query.batch("run-a", 1))
    run = "run-a" if same_run else "run-b"
    query.decisions().finish()
    query.decisions().commit(query.batch(run, 1))  # Spark has no commit of the batch, and runs it again
    query.decisions().commit(query.batch(run, 2))
    assert query.committed() == rows(0, 1, 2)
    assert not query.has_open_transactions()
    assert query.decisions().read().batch == 2 and query.decisions().read().is_ended


def test_batch_that_is_run_again_after_its_commit_is_not_there_twice(query: Query) -> None:
    for run in ("run-a", "run-b", "run-c"):
        query.decisions().commit(query.batch(run, 0))
    assert query.committed() == rows(0)
    assert not query.has_open_transactions()


def test_new_query_with_the_same_ledger_counts_its_batches_anew(query: Query) -> None:
    query.decisions().commit(query.batch("run-a", 7))
    batch = query.batch("run-b", 0)
    query.decisions().commit(WrittenBatch(0, "another query", "run-b", batch.attempts))
    assert query.committed() == rows(0, 7)


def test_attempts_that_do_not_count_are_aborted_with_the_batch(query: Query) -> None:
    query.task(7, "run-a", 0)  # of a driver that died in its first batch
    batch = query.batch("run-b", 0)
    query.task(1, "run-b", 0, attempt=1)  # a speculative one
    assert query.has_open_transactions()
    query.decisions().commit(batch)
    assert not query.has_open_transactions()
    assert query.committed() == rows(0)


@pytest.mark.parametrize("suffix", [".v2", ".run-a", ".1", ".ledger", "."])
def test_ledger_whose_name_begins_with_that_of_another_keeps_its_transactions(query: Query, suffix: str) -> None:
    other = Query(query.admin, query.bootstrap, query.name + suffix)
    begun = other.batch("run-a", 0)
    other.task(TASKS, "run-a", 0)  # an attempt that does not count
    query.decisions().commit(query.batch("run-a", 0))
    assert len(other.decisions().open_attempts()) == TASKS + 1
    assert query.decisions().read().superseded == ()
    other.decisions().commit(begun)
    assert (query.committed(), other.committed()) == (rows(0), rows(0))
    assert not other.has_open_transactions()


def test_ledger_of_many_pieces_leaves_the_one_whose_name_ends_with_their_number(query: Query) -> None:
    place = (query.name, 0)
    many = tuple(Attempt(task, 0, task * 7919 % 10_007 << 20, task % 9) for task in range(900))
    long, short = Ledger(4, "query", "run", True, many), Ledger(7, "query", "run", True)
    assert len(long.encoded()) > 1
    for name, ledger in ((f"{query.name}.1", short), (query.name, long)):
        producer = take_id(query.admin, ledger_id(name), LONG_MS)
        write_ledger(query.admin, name, place, producer, ledger_id(name), ledger)
        end(query.admin, ledger_id(name), producer, commits=True)
    assert read_ledger(query.admin, query.name, place) == long
    assert read_ledger(query.admin, f"{query.name}.1", place) == short


def test_run_that_another_one_has_followed_decides_nothing_more(query: Query) -> None:
    query.decisions().commit(query.batch("run-a", 0))
    query.decisions().commit(query.batch("run-b", 1))
    with pytest.raises(NotCommitted, match="another run of the query has taken over"):
        query.decisions().commit(query.batch("run-a", 2))
    assert query.committed() == rows(0, 1)


def test_one_of_two_drivers_with_the_same_batch_decides(query: Query) -> None:
    both = [query.batch("run-a", 0), query.batch("run-b", 0)]
    failures: list[Exception] = []

    def commit(batch: WrittenBatch) -> None:
        try:
            query.decisions().commit(batch)
        except (NotCommitted, NotOpen) as error:  # fenced by the other one, which decides
            failures.append(error)

    with ThreadPoolExecutor(len(both)) as threads:
        list(threads.map(commit, both))  # raises any other error of theirs
    assert len(failures) < 2
    query.decisions().commit(query.batch("run-c", 0))
    query.decisions().commit(query.batch("run-c", 1))
    assert query.committed() == rows(0, 1)


def test_batch_whose_transactions_have_timed_out_is_not_decided(query: Query) -> None:
    batch = query.batch("run-a", 0, SHORT_MS)
    eventually(lambda: not query.has_open_transactions(), what="the transactions time out")
    with pytest.raises(NotCommitted, match=r"kafka\.transaction\.timeout\.ms"):
        query.decisions().commit(batch)
    assert query.committed() == [] and query.decisions().read().batch == -1


def test_decided_batch_whose_transactions_time_out_is_named_until_it_is_given_up(query: Query) -> None:
    batch = query.batch("run-a", 0, SHORT_MS * 5)
    with pytest.raises(Died):
        query.decisions(dies_before("end", 1)).commit(batch)
    eventually(lambda: not query.has_open_transactions(), what="the transactions time out")
    for attempt in (lambda: query.decisions().finish(), lambda: query.decisions().commit(query.batch("run-b", 0))):
        with pytest.raises(Torn, match=r"batch 0 of the ledger .* tasks 0, 1, 2 .*skipExpired"):
            attempt()
    query.decisions(skips_expired=True).finish()
    query.decisions().commit(query.batch("run-c", 1))
    assert query.committed() == rows(1)


def test_driver_that_dies_with_its_ledger_written_and_not_decided_holds_up_no_start(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "UNSTABLE_S", 0.0)
    monkeypatch.setattr(decision, "LEDGER_TIMEOUT_MS", 600_000)  # longer than requests are repeated
    query.decisions().commit(query.batch("run-a", 0))
    with pytest.raises(Died):
        query.decisions(dies_before("decide", 1)).commit(query.batch("run-a", 1))
    assert query.decisions().finish().batch == 0


def test_batch_whose_ledger_is_written_too_late_is_not_decided(query: Query) -> None:
    def late(step: str) -> None:
        if step == "decide":
            eventually(lambda: not query.has_open_transactions(), what="the transactions time out")

    with pytest.raises(NotCommitted, match="the brokers took longer for the ledger"):
        query.decisions(late).commit(query.batch("run-a", 0, SHORT_MS * 5))
    assert query.decisions().read().batch == -1
    query.decisions().commit(query.batch("run-b", 0))
    assert query.committed() == rows(0)


def test_batch_of_an_older_checkpoint_is_an_error_and_not_taken_for_the_one_of_its_number(query: Query) -> None:
    for number in range(3):
        query.decisions().commit(query.batch("run-a", number))
    with pytest.raises(
        NotCommitted, match="batch 2 of the same query is in the topics, so the checkpoint is an older one"
    ):
        query.decisions().commit(query.batch("run-b", 1))
    assert not query.has_open_transactions()
    query.decisions().commit(query.batch("run-b", 2))
    assert query.committed() == rows(0, 1, 2)


@pytest.mark.parametrize("step", STEPS)
def test_batch_that_spark_gives_up_after_a_failed_commit_is_there_whole_or_not_at_all(query: Query, step: str) -> None:
    batch = query.batch("run-a", 0)
    with pytest.raises(Died):
        query.decisions(dies_before(step, 1)).commit(batch)
    query.task(TASKS, "run-a", 0)  # an attempt that Spark killed
    is_decided = step not in ("take", "write", "decide")
    query.decisions().give_up(batch)
    assert query.decisions().read().batch == (0 if is_decided else -1)
    assert not query.has_open_transactions()
    assert query.committed() == (rows(0) if is_decided else [])
    query.decisions().commit(query.batch("run-b", 0))
    assert query.committed() == rows(0)
