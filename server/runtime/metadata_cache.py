"""The metadata image that a node answers from, and the names in it that have a meaning of their own.

- `MetadataCache`: the image, and the functions that are called when it changes.
- `INTERNAL_TOPICS`: the topics in which coordinators store their state. Clients may read them, but not write to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...metadata.image import EMPTY_IMAGE, MetadataImage


class MetadataCache:
    """Holds the newest published image. Only the publisher replaces it."""

    __slots__ = ("described", "image", "on_published")

    def __init__(self) -> None:
        #: The topics that `endpoints/metadata.py` keeps encoded, by listener and version.
        self.described: dict[tuple[str, int], Any] = {}
        self.image: MetadataImage = EMPTY_IMAGE
        #: Called with each image, when it is the one that handlers answer from.
        self.on_published: list[Callable[[MetadataImage], None]] = []


# ---- internal topics

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"

INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

#: The client id of Kafka's own admin client, which may write to internal topics.
ADMIN_CLIENT_ID = "__admin_client"
