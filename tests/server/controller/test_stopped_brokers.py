"""Brokers that may have ended: one is probed once, and a fenced one not at all."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.controller import stopped_brokers
from odradek.server.controller.stopped_brokers import StoppedBrokers
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.server.runtime.subsystem import Lazy


def broker(broker_id: int, *, fenced: bool = False) -> Any:
    listener = SimpleNamespace(host=f"b{broker_id}", port=9092)
    return SimpleNamespace(id=broker_id, fenced=fenced, listeners={"PLAINTEXT": listener})


async def test_broker_is_probed_once_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[str] = []
    has_answered = asyncio.Event()

    async def is_gone(addresses: Any, again_s: Any) -> bool:
        probed.extend(host for host, _ in addresses)
        await has_answered.wait()
        return False

    monkeypatch.setattr(stopped_brokers, "is_gone", is_gone)
    stopped = StoppedBrokers(MetadataCache(), Lazy(lambda: None))  # type: ignore[arg-type, return-value]
    for one in (broker(1), broker(1), broker(2), broker(3, fenced=True)):
        stopped.look_for(one)
    assert set(stopped.leaving) == {1, 2}
    answers: list[int] = []
    stopped.when_known(lambda: answers.append(1))
    await asyncio.sleep(0)
    assert sorted(probed) == ["b1", "b2"]
    assert answers == []
    has_answered.set()
    async with asyncio.timeout(20):
        while stopped.leaving:  # noqa: ASYNC110 - tasks end in turns of the loop
            await asyncio.sleep(0)
    assert answers == [1]
    stopped.look_for(broker(1))
    assert set(stopped.leaving) == {1}, "it may end again"
    stopped.stop()
