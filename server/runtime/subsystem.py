"""The interface of a subsystem of a node, and the stop of several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Set
from typing import TYPE_CHECKING, TypeVar

from ...metadata.image import MetadataImage

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part

T = TypeVar("T")
Stop = Callable[[], Awaitable[None] | None]


class Subsystem:
    """The composition root, server/broker.py, starts the subsystems of a node in their order, and stops them in reverse."""

    name: str
    #: The parts of the metadata that it follows: `publish` is called with the first image, and with each delta that changes
    #: one of them. It reads no other part of them, then or later.
    interest: Set[Part] = frozenset()
    #: Without it, `stop` leaves directories as a process leaves them that is killed.
    stops_cleanly = True

    async def start(self) -> None:
        """Starts it; the subsystems before it have started."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Follows a new image, in steps. The subsystems before it have followed it."""
        return ()

    async def stop(self) -> None:
        """Stops what the start has made, however far it came. The subsystems after it have stopped."""


async def stop_each(stops: Iterable[Stop]) -> None:
    """Calls each, one after the other: one that fails keeps no other from its own. Raises the failure in the end, or
    several as one `ExceptionGroup`; the node logs it.
    """
    failures: list[Exception] = []
    for stop in stops:
        try:
            waiting = stop()
            if waiting is not None:
                await waiting
        except Exception as failure:
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"{len(failures)} parts of the node did not stop", failures)
