"""A batch of the sink is in the topic once, whichever step of its end a driver dies before: on Odradek and Apache Kafka."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from odradek.sink import decision
from odradek.sink.decision import Torn, WrittenBatch
from odradek.sink.ledger import Attempt, Ledger, ledger_id
from odradek.sink.open_transactions import NotCommitted
from odradek.sink.requests import NotOpen, end, read_ledger, take_id, write_ledger

from compat_tests.recipes import eventually
from compat_tests.sink.harness import LONG_MS, SHORT_MS, STEPS, TASKS, Died, Query, dies_before, rows

pytestmark = pytest.mark.timeout(240)


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


@pytest.mark.parametrize("is_written_again", [True, False])
def test_attempts_that_a_dead_driver_has_not_aborted_are_aborted_after_the_batch_is_run_again(
    query: Query, is_written_again: bool
) -> None:
    batch = query.batch("run-a", 0)
    query.task(1, "run-a", 0, attempt=1)
    with pytest.raises(Died):
        query.decisions(dies_before("clear", 1)).commit(batch)
    assert query.has_open_transactions()
    if is_written_again:
        query.decisions().commit(query.batch("run-b", 0))
    else:
        query.decisions().clear("run-b")  # the tasks have found the batch in the ledger
    assert not query.has_open_transactions()
    assert query.committed() == rows(0)


def test_batch_without_rows_aborts_nothing_of_its_own_run(query: Query) -> None:
    query.decisions().commit(query.batch("run-a", 0))
    query.task(0, "run-a", 1)
    query.decisions().clear("run-a")
    assert query.has_open_transactions()


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
    # The one that has decided may be fenced, too, before its last note: both fail then, and a restart goes on.
    assert len(failures) < 2 or query.decisions().read().batch == 0
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
