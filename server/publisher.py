"""Brings the broker to a new image, in a fixed order: what is to be served must be there before anybody is told of it.

1. the broker's dynamic configuration, since logs and roles are made by it;
2. logs and the roles of partitions;
3. the coordinator's shards, which live in some of them;
4. the image that Metadata and the other handlers answer from.

Thousands of partitions take a while, so there are steps, between which others may have the loop (`slices.py`). What
coordinators live in comes last among the partitions, in one step with the rest: no shard outlives its leadership.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..metadata.image import EMPTY_IMAGE
from .cluster.change_lines import log_changes
from .runtime.halting import cause_of
from .runtime.internal_topics import SHARE_GROUP_STATE_TOPIC

if TYPE_CHECKING:
    from ..metadata.delta import MetadataDelta
    from ..metadata.image import MetadataImage
    from .node import Node

log = logging.getLogger("odradek.publisher")


class Publisher:
    def __init__(self, broker: Node) -> None:
        self._broker = broker

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """At once; see `steps`."""
        for _ in self.steps(delta, image):
            pass

    def steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """`delta` is what changed since the image that is published now, and `image` what it leads to."""
        broker, published = self._broker, self._broker.metadata.image
        assert image.offset >= published.offset, f"offset {image.offset} published after {published.offset}"
        with self._contained("the broker's configuration"):
            broker.config.apply(delta, image)
        if broker.config.is_broker:
            with self._contained("partitions"):
                yield from broker.partition_changes.steps(delta, image)
            with self._contained("coordinators of groups"):
                broker.groups.apply(delta, image)
            with self._contained("coordinators of transactions"):
                broker.transactions.apply(delta, image)
            with self._contained("share groups"):
                self._publish_to_share_groups(delta, image)
        is_first = published is EMPTY_IMAGE
        log_changes(broker.node_id, published, delta, image)
        broker.metadata.image = image
        for function in broker.metadata.on_published:
            with self._contained(f"{function}", is_first=is_first):
                function(image)

    @contextmanager
    def _contained(self, what: str, *, is_first: bool | None = None) -> Iterator[None]:
        """If one part cannot follow the metadata, the others still do, and so does this one with the next image: somebody's
        request led here. A node whose first image fails does not start.
        """
        try:
            yield
        except Exception as failure:
            is_first = self._broker.metadata.image is EMPTY_IMAGE if is_first is None else is_first
            if is_first or cause_of(failure) is not None:
                raise
            log.exception("a bug: %s do not follow the metadata", what)

    def _publish_to_share_groups(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """What nobody has used yet is not made for it."""
        broker = self._broker
        if broker.share_states.made is not None or image.topic(SHARE_GROUP_STATE_TOPIC) is not None:
            broker.share_states().apply(delta, image)
        if broker.share_partitions.made is not None:
            broker.share_partitions().apply(bool(delta.topics))
