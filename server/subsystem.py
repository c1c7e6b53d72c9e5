"""A subsystem of a node: one class with parts of its own, which takes its dependencies as arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..metadata.delta import MetadataDelta
    from ..metadata.image import MetadataImage


class Subsystem(Protocol):
    """The composition root (broker.py) lists the subsystems of a node, starts them in order, and stops them in reverse."""

    name: str

    async def start(self) -> None:
        """Starts it; the subsystems before it have started."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Follows a new image, in steps. The subsystems before it have followed it."""

    async def stop(self) -> None:
        """Stops what the start has made, however far it came. The subsystems after it have stopped."""
