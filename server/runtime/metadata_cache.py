"""The published image of the metadata, which all subsystems read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...metadata.image import EMPTY_IMAGE, MetadataImage


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
