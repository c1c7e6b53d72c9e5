"""Metadata that this node cannot serve. A node that meets it ends before it opens a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .features import FEATURES
from .image import TOPIC_RESOURCE

if TYPE_CHECKING:
    from .delta import MetadataDelta
    from .image import FeaturesImage, MetadataImage

TIERED_TOPIC_KEY = "remote.storage.enable"


def unsupported(delta: MetadataDelta, image: MetadataImage, *, is_tiered: bool) -> str | None:
    """Returns why this node cannot serve `image`, to which `delta` leads from an image that it can serve; or None.

    `is_tiered`: the node has tiered storage.
    """
    return (unknown_feature(image.features) if delta.features else None) or (
        None if is_tiered else _tiered_topic(delta, image)
    )


def unknown_feature(image: FeaturesImage) -> str | None:
    """Returns why this node cannot take part in a cluster with these levels, or None."""
    for name, level in sorted(image.finalized.items()):
        feature = FEATURES.get(name)
        if feature is None or not feature.minimum <= level <= feature.built:
            highest = 0 if feature is None else feature.built
            return f"{name} is finalized at level {level}; this broker supports levels up to {highest}"
    return None


def _tiered_topic(delta: MetadataDelta, image: MetadataImage) -> str | None:
    """Returns why a topic with remote segments cannot be served. The log of such a topic begins in remote storage: leader
    epochs and offsets below its local part must stay.
    """
    tiered = sorted(
        name
        for kind, name in delta.configs
        if kind == TOPIC_RESOURCE and image.config(kind, name).get(TIERED_TOPIC_KEY, "").strip().lower() == "true"
    )
    if not tiered:
        return None
    more = f" (and {len(tiered) - 1} more topics)" if len(tiered) > 1 else ""
    return (
        f"topic {tiered[0]}{more} has {TIERED_TOPIC_KEY}=true; this broker has no tiered storage enabled, and would lose "
        f"the remote records, so nothing of the topic was touched. Set {TIERED_TOPIC_KEY}=false with "
        "remote.log.delete.on.disable=true on Apache Kafka, which deletes the remote records, or delete the topic"
    )
