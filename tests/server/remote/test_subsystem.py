"""The life of the subsystem of tiered storage."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.remote.subsystem import LOOK_S, RemoteSubsystem
from odradek.server.runtime.background_tasks import BackgroundTasks

from tests.server.harness.virtual_time import after_ms, simulated


@pytest.mark.parametrize("turns", range(5))
async def test_stop_that_comes_together_with_an_image_ends_the_task(turns: int) -> None:
    subsystem: Any = RemoteSubsystem.__new__(RemoteSubsystem)
    subsystem._config = BrokerConfig({"remote.log.manager.task.interval.ms": "3600000"})
    subsystem._background = BackgroundTasks()
    subsystem._is_due = asyncio.Event()
    task = asyncio.create_task(subsystem._follow_partitions())
    for _ in range(5):
        await asyncio.sleep(0)
    subsystem._is_due.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    # A pass over the partitions is no part of this test: it fails, which the task survives.
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.done()


class FailingUploads:
    """A look for open uploads that fails at first with an error that no store should raise."""

    def __init__(self) -> None:
        self.looks = 0

    async def look(self, logs: object, now_s: float) -> None:
        self.looks += 1
        if self.looks == 1:
            raise ValueError("a mistake of a library")


def test_look_for_open_uploads_goes_on_after_any_failure() -> None:
    async def story() -> None:
        subsystem: Any = RemoteSubsystem.__new__(RemoteSubsystem)
        subsystem._background = BackgroundTasks()
        subsystem.work, subsystem.logs = SimpleNamespace(uploads=FailingUploads()), {}
        task = asyncio.create_task(subsystem._sweep_uploads())
        await after_ms(1.5 * LOOK_S * 1000)
        assert "a mistake" in subsystem._background.failing["remote uploads"]
        await after_ms(LOOK_S * 1000)
        assert not subsystem._background.failing and subsystem.work.uploads.looks == 2
        task.cancel()

    simulated(story)
