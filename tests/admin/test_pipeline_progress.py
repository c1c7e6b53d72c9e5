"""The progress of pipelines beside committed offsets: its text, and commits from a thread that cost the pipeline nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import odradek
import pytest
from confluent_kafka import Consumer
from hypothesis import given
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.admin.errors import NoResponse
from odradek.admin.group_offsets import Committed, commit, committed
from odradek.admin.offset_committer import OffsetCommitter
from odradek.admin.pipeline_progress import (
    PipelineKind,
    PipelineProgress,
    newest_progress,
    parse_pipeline_progress,
)
from odradek.admin.session import Admin

from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("processes")

PROGRESS = st.builds(
    PipelineProgress,
    st.sampled_from(PipelineKind),
    st.text(min_size=1, max_size=300),
    st.integers(0, 1 << 50),
    st.integers(-1, 1 << 50),
    st.none() | st.floats(0, 1e12),
    st.none() | st.integers(0, 1 << 50),
    st.text(max_size=500),
)


def at(moment_ms: int, **fields: Any) -> PipelineProgress:
    return PipelineProgress(PipelineKind.query, "orders", moment_ms, **fields)


@given(PROGRESS)
def test_text_of_progress_reads_as_it_was(progress: PipelineProgress) -> None:
    assert parse_pipeline_progress(progress.text()) == progress


@given(
    st.text(max_size=50) | st.sampled_from(["[]", "{}", '{"kind":"query"}', '{"kind":"query","name":"a","at_ms":[]}'])
)
def test_metadata_of_other_programs_is_no_progress(text: str) -> None:
    with pytest.raises(ValueError):
        parse_pipeline_progress(text)
    assert newest_progress([text, at(1).text(), at(3).text(), at(2).text()]) == at(3)


@pytest.mark.parametrize("field", ["at_ms", "batch", "rows_per_s", "dead_letters"])
@pytest.mark.parametrize("number", ["1e300", "-5", "9" * 400])
def test_progress_with_numbers_that_no_page_or_metric_can_show_is_none(field: str, number: str) -> None:
    text = at(1).text()[:-1] + f',"{field}":{number}}}'
    with pytest.raises(ValueError, match="not the progress of a pipeline"):
        parse_pipeline_progress(text)
    assert newest_progress([text, at(1).text()]) == at(1)


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_rate_that_is_no_number_is_no_progress(number: str) -> None:
    with pytest.raises(ValueError):
        parse_pipeline_progress(at(1).text()[:-1] + f',"rows_per_s":{number}}}')


def test_long_texts_fit_into_the_metadata_of_a_commit() -> None:
    text = at(1, error="x\u00e4" * 9000).text()
    assert len(text) <= 4096 and parse_pipeline_progress(text).error == "x\u00e4" * 250


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as made:
        made.topic("orders").send(b"1", b"2", b"3")
        yield made


def offsets_of(broker: odradek.Broker, group: str) -> dict[tuple[str, int], Committed]:
    with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
        return committed(admin, group)


def committer_of(broker: odradek.Broker, errors: list[str]) -> OffsetCommitter:
    connection = Connection({"bootstrap.servers": broker.bootstrap_servers})
    return OffsetCommitter(connection.admin, errors.append)


def test_last_of_many_commits_is_in_the_group_after_the_close(broker: odradek.Broker) -> None:
    errors: list[str] = []
    made = committer_of(broker, errors)
    for offset in range(4):
        made.commit("many", {("orders", 0): offset}, at(offset))
    made.close(30)
    assert offsets_of(broker, "many") == {("orders", 0): Committed(3, at(3).text())} and not errors


def test_flush_returns_when_the_commit_is_in_the_group(broker: odradek.Broker) -> None:
    made = committer_of(broker, [])
    for offset in range(3):
        made.commit("flushed", {("orders", 0): offset}, at(offset))
        made.flush(30)
        assert offsets_of(broker, "flushed")["orders", 0].offset == offset
    made.close(30)


def test_forgotten_group_is_not_committed_again(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.admin.offset_committer._RENEWAL_S", 0.2)
    made = committer_of(broker, [])
    for group in ("moved", "kept"):
        made.commit(group, {("orders", 0): 1}, at(1))
    made.flush(30)
    made.forget("moved")
    made.flush(30)  # a renewal that was being sent
    with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
        commit(admin, "moved", {("orders", 0): 5})
        commit(admin, "kept", {("orders", 0): 5})
    eventually(lambda: offsets_of(broker, "kept")["orders", 0].offset == 1, what="the other group is renewed")
    assert offsets_of(broker, "moved")["orders", 0].offset == 5
    made.commit("moved", {("orders", 0): 7}, at(2))
    made.close(30)
    assert offsets_of(broker, "moved")["orders", 0].offset == 7


def test_error_before_the_first_offsets_leaves_those_of_the_group(broker: odradek.Broker) -> None:
    made = committer_of(broker, [])
    failed = at(0, error="no table")
    made.commit_error("new", "orders", failed)
    made.flush(30)
    assert offsets_of(broker, "new") == {("orders", 0): Committed(0, failed.text())}
    made.commit("new", {("orders", 0): 3}, at(7))
    made.flush(30)
    made.commit_error("new", "orders", failed)
    made.close(30)
    assert offsets_of(broker, "new") == {("orders", 0): Committed(3, at(7, error="no table").text())}


def test_group_with_members_keeps_its_offsets_and_the_error_is_shown_once(broker: odradek.Broker) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "mine", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["orders"])
        eventually(lambda: consumer.poll(0.1), what="the member has partitions")
        consumer.commit(asynchronous=False)
        before = offsets_of(broker, "mine")
        errors: list[str] = []
        made = committer_of(broker, errors)
        made.commit("mine", {("orders", 0): 3}, at(1))
        eventually(lambda: errors, what="the error is shown")
        made.commit("mine", {("orders", 0): 2}, at(2))
        made.flush(30)
        made.close(30)
        assert offsets_of(broker, "mine") == before
        assert len(errors) == 1 and "stop its members first" in errors[0] and "\n" not in errors[0]
    finally:
        consumer.close()


def test_commit_after_an_outage_is_that_of_the_newest_offsets(broker: odradek.Broker) -> None:
    """The error is shown once in an outage of several attempts, and again in the next one."""
    errors: list[str] = []
    is_out = threading.Event()
    attempts = []

    @contextmanager
    def open_admin() -> Iterator[Admin]:
        attempts.append(1)
        if is_out.is_set():
            raise NoResponse("no response from nowhere")
        with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
            yield admin

    is_out.set()
    made = OffsetCommitter(open_admin, errors.append)
    made.commit("outage", {("orders", 0): 1}, at(1))
    made.commit("outage", {("orders", 0): 2}, at(2))
    eventually(lambda: len(attempts) >= 2, what="a second attempt")
    assert len(errors) == 1
    made.commit("outage", {("orders", 0): 3}, at(3))
    is_out.clear()
    eventually(lambda: offsets_of(broker, "outage") == {("orders", 0): Committed(3, at(3).text())}, what="the commit")
    made.close(30)


def test_pipeline_does_not_wait_for_brokers_that_hang() -> None:
    is_over = threading.Event()

    @contextmanager
    def open_admin() -> Iterator[Admin]:
        is_over.wait(60)
        raise NoResponse("no response")
        yield

    made = OffsetCommitter(open_admin, lambda text: None)
    began = time.monotonic()
    made.commit("hung", {("orders", 0): 1}, at(1))
    made.flush(0.1)
    made.close(0.1)
    assert time.monotonic() - began < 10
    is_over.set()
