"""Threads that wait for the disk, in the loop: each work waits until the test releases it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.server.runtime.thread_pools import ThreadPool


class HeldDisk(ThreadPool):
    """`threads`: one for each work that was held. Works that begin while it is not `is_held` are done at once."""

    def __init__(self) -> None:
        super().__init__("held", 1)
        self.is_held = False
        self.threads: list[asyncio.Future[None]] = []

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        if self.is_held:
            self.threads.append(asyncio.get_running_loop().create_future())
            await self.threads[-1]
        return function(*args)

    def release(self) -> None:
        self.is_held = False
        for thread in self.threads:
            if not thread.done():
                thread.set_result(None)
