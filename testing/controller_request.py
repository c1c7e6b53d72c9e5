"""A request to the active controller of a cluster in this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..protocol.schema import Request, ResponseT
    from ..server.broker import BrokerServer

TIMEOUT_S = 30


async def ask_controller(controller: BrokerServer, request: Request[ResponseT], version: int) -> ResponseT:
    """Returns the response. Raises TimeoutError, and RuntimeError where the broker has failed."""
    received: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()

    def responded(response: ResponseT) -> None:
        if not received.done():
            received.set_result(response)

    controller.controller.driver.submit(request, version, responded)
    ends: list[asyncio.Future[object]] = [received, controller.failed]  # type: ignore[list-item]
    try:
        await asyncio.wait(ends, timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if received.done():
            return received.result()
    finally:
        received.cancel()
    if controller.failed.done():
        raise RuntimeError(f"the broker cannot continue: {controller.failed.result()}")
    raise TimeoutError(f"the controller did not respond in {TIMEOUT_S} s")
