"""The life of the subsystem of tiered storage."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.remote.subsystem import RemoteSubsystem
from odradek.server.runtime.background_tasks import BackgroundTasks


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
