"""A request to the active controller of a cluster in this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..protocol.schema import Request, ResponseT
    from ..server.broker import BrokerServer

TIMEOUT_S = 30


async def ask_controller(controller: BrokerServer, request: Request[ResponseT], version: int) -> ResponseT:
    """Returns the response. Raises TimeoutError, and RuntimeError where the broker has failed."""
    answered: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()

    def answer(response: ResponseT) -> None:
        if not answered.done():
            answered.set_result(response)

    controller.controller.driver.submit(request, version, answer)
    ends: list[asyncio.Future[Any]] = [answered, controller.failed]
    try:
        await asyncio.wait(ends, timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if answered.done():
            return answered.result()
    finally:
        answered.cancel()
    if controller.failed.done():
        raise RuntimeError(f"the broker cannot continue: {controller.failed.result()}")
    raise TimeoutError(f"the controller did not respond in {TIMEOUT_S} s")
