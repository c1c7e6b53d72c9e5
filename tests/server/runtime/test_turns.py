"""Turns of the event loop: large work takes turns, and turns over the budget are counted and logged."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import odradek
import pytest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.server.endpoints import metadata
from odradek.server.observability.families import families
from odradek.server.runtime import sliced_work, turn_budget, turns
from odradek.server.runtime.sliced_work import WAITING
from odradek.server.runtime.turn_budget import (
    LOG_INTERVAL_S,
    TURN_BUDGET_S,
    WARNED_TURN_S,
    TurnWatch,
)
from odradek.server.runtime.turns import Task, Turns, Work

from compat_tests.wire import WireClient, request_frame
from tests.server.harness.data_path import wait_until
from tests.server.harness.replicas import eventually


def fail(failure: Exception) -> None:
    raise AssertionError("the work failed") from failure


@pytest.fixture
def made() -> Iterator[Turns]:
    turns_of_a_test = Turns(TurnWatch(time.perf_counter))
    yield turns_of_a_test
    turns_of_a_test.stop()


async def test_pieces_of_work_take_turns_one_slice_at_a_time(made: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_work, "SLICE_S", 0.0)
    monkeypatch.setattr(turn_budget, "SLICE_S", 0.0)
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    order: list[str] = []
    loop_turns: list[int] = []

    def work(name: str) -> Work:
        for number in range(3):
            order.append(f"{name}{number}")
            loop_turns.append(count[0])
            yield

    count = [0]

    def tick() -> None:
        count[0] += 1
        asyncio.get_running_loop().call_soon(tick)

    tick()
    made.begin(work("a"), fail)
    made.begin(work("b"), fail)
    await eventually(lambda: len(order) == 6)
    assert order == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert len(set(loop_turns)) == 6, "no two slices in one turn of the loop"


async def test_work_that_waits_goes_on_when_it_is_resumed(made: Turns) -> None:
    order: list[str] = []

    def work() -> Work:
        order.append("before")
        yield WAITING
        order.append("after")

    task = made.begin(work(), fail)
    await eventually(lambda: order)
    await asyncio.sleep(0.01)
    assert order == ["before"]
    task.resume()
    await eventually(lambda: len(order) == 2)


async def test_work_that_is_resumed_before_it_waits_does_not_wait(made: Turns) -> None:
    done: list[bool] = []
    tasks: list[Task] = []

    def work() -> Work:
        tasks[0].resume()
        yield WAITING
        done.append(True)

    tasks.append(made.begin(work(), fail))
    await eventually(lambda: done)


async def test_collector_rests_while_there_is_work_and_is_as_before_afterwards(made: Turns) -> None:
    seen: list[bool] = []

    def work() -> Work:
        seen.append(gc.isenabled())
        yield

    assert gc.isenabled()
    made.begin(work(), fail)
    await eventually(lambda: seen and gc.isenabled())
    assert seen == [False]


async def test_failure_of_work_is_handed_over_and_others_go_on(made: Turns) -> None:
    failures: list[Exception] = []
    done: list[bool] = []

    def broken() -> Work:
        yield
        raise LookupError("injected")

    def sound() -> Work:
        yield
        done.append(True)

    made.begin(broken(), failures.append)
    made.begin(sound(), fail)
    await eventually(lambda: done and failures)
    assert isinstance(failures[0], LookupError)


def test_lines_about_long_turns_are_rare_and_count_the_others(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    watch = TurnWatch(lambda: now_s[0])
    with caplog.at_level(logging.WARNING, "odradek.turns"):
        for _ in range(3):
            watch.exceeded(0.5, "Metadata", 9, "c", 100)
        now_s[0] = LOG_INTERVAL_S
        watch.exceeded(0.7, "Fetch", 17, None, 10)
    assert len(caplog.messages) == 2
    assert "Metadata v9 request of 100 bytes from client c blocked the event loop for 500 ms" in caplog.messages[0]
    assert "(2 more such requests since the last line)" in caplog.messages[1]
    assert (watch.count, watch.counts, watch.longest_s) == (4, {"Metadata": 3, "Fetch": 1}, 0.7)


@pytest.mark.usefixtures("sockets")
def test_request_that_holds_the_loop_is_named_by_log_and_metrics(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(_: Any, call: Any) -> MetadataResponse:
        ends = asyncio.get_running_loop().time() + 2 * WARNED_TURN_S
        while asyncio.get_running_loop().time() < ends:
            pass
        return MetadataResponse()

    monkeypatch.setattr(metadata, "ENDPOINT", replace(metadata.ENDPOINT, handle=slow))
    monkeypatch.setattr(turn_budget, "LOG_INTERVAL_S", 0.0)  # on a busy machine, a different turn may be logged first
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers, client_id="slow one") as client:
        watch = broker.server.node.turn_watch
        client.call(MetadataRequest(topics=[]), 9)
        named = ("Metadata v9 request", "client slow one blocked")
        wait_until(
            lambda: any(all(words in line for words in named) for line in tuple(caplog.messages)), "it is logged"
        )
        assert watch.counts["Metadata"] >= 1
        found = {sample.name: sample for family in families(broker.server.services) for sample in family.samples}
        assert found["odradek_loop_long_turns_total"].value >= 1
        assert found["odradek_loop_longest_turn_seconds"].value >= WARNED_TURN_S


@pytest.mark.usefixtures("sockets")
def test_pipelined_requests_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not handle all short requests of a full buffer in one turn."""
    handled_in: list[int] = []
    turn = [0]

    def slow(_: Any, call: Any) -> MetadataResponse:
        handled_in.append(turn[0])
        ends = asyncio.get_running_loop().time() + TURN_BUDGET_S / 8
        while asyncio.get_running_loop().time() < ends:
            pass
        return MetadataResponse()

    monkeypatch.setattr(metadata, "ENDPOINT", replace(metadata.ENDPOINT, handle=slow))
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        loop = broker._running().loop

        def tick() -> None:
            turn[0] += 1
            if len(handled_in) < 40:
                loop.call_soon(tick)

        loop.call_soon_threadsafe(tick)
        frames = [request_frame(MetadataRequest(topics=[]), 1, number, None) for number in range(40)]
        client.send_bytes(b"".join(frames))
        for _ in range(40):
            client.receive_frame()
    assert max(handled_in.count(number) for number in set(handled_in)) <= 4
