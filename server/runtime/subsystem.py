"""Subsystems of a node, the metadata that they follow, and their parts that few nodes need.

- `Subsystem`: one class with parts of its own, which takes its dependencies as arguments. `stop_each` stops several.
- `MetadataCache`: the image that the handlers of a node answer from.
- `Lazy`: a part that few brokers need. A broker without share groups has none of their state, and imports none of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Set
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...metadata.image import EMPTY_IMAGE, MetadataImage

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part


T = TypeVar("T")

Stop = Callable[[], Awaitable[None] | None]


class Subsystem:
    """The composition root (broker.py) lists the subsystems of a node, starts them in order, and stops them in reverse."""

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


class Lazy(Generic[T]):
    """A part that is made by its first call. `made` is None until then."""

    __slots__ = ("_make", "made")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None

    def __call__(self) -> T:
        if self.made is None:
            self.made = self._make()
        return self.made


class MetadataCache:
    """Holds the newest published image. Only the publisher replaces it."""

    __slots__ = ("being_published", "described", "image", "on_published")

    def __init__(self) -> None:
        #: The topics that `endpoints/metadata.py` keeps encoded, by listener and version.
        self.described: dict[tuple[str, int], Any] = {}
        self.image: MetadataImage = EMPTY_IMAGE
        #: The image that the subsystems are following in steps. It becomes `image` when all have.
        self.being_published: MetadataImage | None = None
        #: Called with each image, when it is the one that handlers answer from.
        self.on_published: list[Callable[[MetadataImage], None]] = []

    @property
    def newest(self) -> MetadataImage:
        """Returns the image to begin with: a part that begins now gets only the changes after it."""
        return self.being_published or self.image
