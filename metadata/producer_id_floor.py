"""The lowest producer id that is given: records of mirrored topics have the ids below it (docs/development/mirror.md)."""

from __future__ import annotations

from .image import BROKER_RESOURCE, MetadataImage
from .mirror_keys import PRODUCER_ID_FLOOR


def producer_id_floor(image: MetadataImage) -> int:
    """0 where no topic was ever mirrored, or the config is no number."""
    text = image.config(BROKER_RESOURCE, "").get(PRODUCER_ID_FLOOR, "")
    return min(int(text), (1 << 62)) if text.isdecimal() and len(text) < 20 else 0
