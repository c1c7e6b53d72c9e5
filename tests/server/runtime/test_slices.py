"""Work in slices, and images that are published in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek import Broker
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.server.runtime import sliced_work as slices
from odradek.server.runtime import turn_budget, turns
from odradek.server.runtime.sliced_work import SlicedWork

from tests.server.harness.replicas import eventually


def _unwanted(failure: Exception) -> None:
    raise failure


@pytest.fixture
def only_steps_end_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may take the processor from this process for longer than a slice."""
    monkeypatch.setattr(slices, "SLICE_S", 3600.0)
    monkeypatch.setattr(turn_budget, "SLICE_S", 3600.0)
    monkeypatch.setattr(turns, "SLICE_S", 3600.0)


@pytest.mark.usefixtures("only_steps_end_slices")
async def test_others_have_the_loop_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 10)
    said: list[str] = []

    def steps() -> Iterator[None]:
        for number in range(25):
            said.append(str(number))
            yield

    work = SlicedWork(_unwanted)
    work.begin(steps(), lambda: said.append("done"))
    assert said[-1] == "9" and work.is_busy
    asyncio.get_running_loop().call_soon(said.append, "other")
    await eventually(lambda: not work.is_busy)
    assert said == [*map(str, range(20)), "other", *map(str, range(20, 25)), "done"]


@pytest.mark.usefixtures("only_steps_end_slices")
async def test_little_is_done_at_once() -> None:
    done: list[str] = []
    work = SlicedWork(_unwanted)
    work.begin(iter([None, None]), lambda: done.append("done"))
    assert done == ["done"] and not work.is_busy


async def test_failure_in_later_slice_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 1)
    failures: list[Exception] = []

    def steps() -> Iterator[None]:
        yield
        raise OSError("full")

    work = SlicedWork(failures.append)
    work.begin(steps(), lambda: None)
    await eventually(lambda: failures)
    assert str(failures[0]) == "full" and not work.is_busy


async def test_stopped_work_runs_no_further_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 1)
    said: list[int] = []

    def steps() -> Iterator[None]:
        for number in range(5):
            said.append(number)
            yield

    work = SlicedWork(_unwanted)
    work.begin(steps(), lambda: said.append(-1))
    work.stop()
    for _ in range(3):
        await asyncio.sleep(0)
    assert said == [0]


@pytest.mark.usefixtures("sockets")
async def test_topic_of_many_partitions_appears_when_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 10)
    async with Broker(data_dir=tmp_path) as broker:
        server, responses = broker.server, []
        request = CreateTopicsRequest([CreatableTopic("many", 95, 1), CreatableTopic("few", 1, 1)], 60_000)
        server.controller.driver.submit(request, 7, responses.append)
        seen: set[int] = set()
        while not responses:
            seen.add(len(server.partitions.hosted))
            is_known = server.node.metadata.image.topic("many") is not None
            assert not is_known or len(server.partitions.hosted) == 96
            await asyncio.sleep(0)
        assert len(seen) > 5, "others had the loop in between"
        assert len(server.partitions.hosted) == 96 and server.node.metadata.image.topic("few") is not None


@pytest.mark.usefixtures("sockets")
async def test_decisions_during_image_publication_complete_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 3)
    async with Broker(data_dir=tmp_path) as broker:
        submit, responses = broker.server.controller.driver.submit, []
        submit(CreateTopicsRequest([CreatableTopic("many", 50, 1)], 60_000), 7, responses.append)
        known = 0
        while known <= 3:
            await asyncio.sleep(0)  # checks in every turn of the loop: a slower check may come when all exist
            known = len(broker.server.partitions.hosted)
        assert broker.server.node.metadata.image.topic("many") is None
        for number in range(5):
            submit(CreateTopicsRequest([CreatableTopic(f"few-{number}", 2, 1)], 60_000), 7, responses.append)
            await asyncio.sleep(0.001)
        await eventually(lambda: len(responses) == 6)
        assert [response.topics[0].name for response in responses] == [
            "many",
            *(f"few-{number}" for number in range(5)),
        ]
        assert len(broker.server.partitions.hosted) == 60


@pytest.mark.usefixtures("sockets")
async def test_a_broker_that_stops_meanwhile_starts_again_with_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 1)
    async with Broker(data_dir=tmp_path) as broker:
        request = CreateTopicsRequest([CreatableTopic("many", 300, 1)], 60_000)
        broker.server.controller.driver.submit(request, 7, lambda response: None)
        await eventually(lambda: len(broker.server.partitions.hosted) > 3)
    async with Broker(data_dir=tmp_path) as broker:
        assert len(broker.server.partitions.hosted) == 300
        assert all(partition.is_leader for partition in broker.server.partitions.hosted)
