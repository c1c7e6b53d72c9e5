"""Parts of a node on a loop in simulated time: waits of seconds take none, and times are exact to some milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from odradek.metadata.image import MetadataImage
from odradek.server.runtime.clock import Clock
from odradek.testing.simulation.loop import VirtualLoop

#: Turns of the loop after which everything that is due now has run.
TURNS = 20


class _Accepting:
    """A network in which each probe of a listener finds that it accepts. There are no other connections."""

    async def reach(self, address: tuple[str, int]) -> None:
        pass


def simulated(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs the scenario on a loop in simulated time. Fails with the first exception of a task or a callback."""
    failures: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(Random(1), _Accepting())) as runner:  # type: ignore[arg-type]
        runner.get_loop().set_exception_handler(lambda loop, context: failures.append(context))
        runner.run(scenario())
    assert not failures, failures


def loop_clock() -> Clock:
    """Returns a clock that goes as the running loop does."""
    return Clock(asyncio.get_running_loop().time)


async def turns() -> None:
    """Returns when everything that is due now has run."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def after_ms(milliseconds: float) -> None:
    """Returns when so much time has passed, and everything that became due has run."""
    await asyncio.sleep(milliseconds / 1000)
    await turns()


def with_broker(image: MetadataImage, broker_id: int, **changes: Any) -> MetadataImage:
    """Returns the image with a changed broker."""
    brokers = image.cluster.brokers
    changed = brokers.set(broker_id, brokers[broker_id]._replace(**changes))
    return image._replace(offset=image.offset + 1, cluster=image.cluster._replace(brokers=changed))
