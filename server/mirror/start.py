"""The start of mirrors with the first link: until then a broker imports nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...metadata.image import BROKER_RESOURCE
from ...metadata.mirror_keys import LINK_PREFIX
from ..runtime.subsystem import Subsystem

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from .here import Here
    from .subsystem import Mirrors


class MirrorSubsystem(Subsystem):
    """`here` makes what links use of this broker."""

    name = "mirror"

    def __init__(self, here: Callable[[], Here]) -> None:
        self._here = here
        self._is_stopped = False
        #: None before the first link.
        self.made: Mirrors | None = None

    def published(self, image: MetadataImage) -> None:
        """Follows an image that handlers answer from now."""
        configs = image.config(BROKER_RESOURCE, "")
        if self.made is None and not self._is_stopped and any(key.startswith(LINK_PREFIX) for key in configs):
            from .subsystem import Mirrors

            self.made = Mirrors(self._here())
        if self.made is not None and not self._is_stopped:
            self.made.published(image)

    async def stop(self) -> None:
        self._is_stopped = True
        if self.made is not None:
            await self.made.stop()
