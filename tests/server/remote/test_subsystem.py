"""The life of the subsystem of tiered storage."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.remote.subsystem import RemoteSubsystem


@pytest.mark.parametrize("turns", range(5))
async def test_stop_that_comes_together_with_an_image_ends_the_task(turns: int) -> None:
    subsystem: Any = RemoteSubsystem.__new__(RemoteSubsystem)
    subsystem._config = SimpleNamespace(get=lambda key: 3_600_000)
    subsystem._is_due = asyncio.Event()
    task = asyncio.create_task(subsystem._follow_partitions())
    for _ in range(5):
        await asyncio.sleep(0)
    subsystem._is_due.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    # A pass over the partitions is no part of this test: it fails, which the task survives, and would be noted.
    subsystem._background = SimpleNamespace(failed=lambda *_: None, succeeded=lambda *_: None)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.done()
