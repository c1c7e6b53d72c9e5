"""Makes all parts of a node follow a new image, in a fixed order: a partition exists before Metadata names it.

1. the broker's dynamic configuration, since logs and roles are made by it;
2. the subsystems in the order of their start: access rules, logs and roles of partitions, coordinators, whose shards live
   in some of them;
3. the image that Metadata and the other handlers answer from.

Thousands of partitions take a while, so there are steps, between which other work may have the loop (`sliced_work.py`).
Partitions with coordinators come last, in one step with the coordinators: no shard outlives its leadership.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..metadata.image import EMPTY_IMAGE
from ..metadata.unsupported import unsupported
from .controller.change_lines import log_changes
from .runtime.halting import UnsupportedMetadata, cause_of

if TYPE_CHECKING:
    from ..metadata.delta import MetadataDelta
    from ..metadata.image import MetadataImage
    from .config.broker_config import BrokerConfig
    from .runtime.metadata_cache import MetadataCache
    from .subsystem import Subsystem

log = logging.getLogger("odradek.publisher")


class Publisher:
    """Publishes images to the subsystems of a node."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache, subsystems: Sequence[Subsystem]) -> None:
        self._config = config
        self._metadata = metadata
        self._subsystems = subsystems

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Publishes an image without a pause; see `steps`."""
        for _ in self.steps(delta, image):
            pass

    def steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """Publishes an image in steps. `delta` leads to it from the image that is published now. Raises
        UnsupportedMetadata before any part has followed it.
        """
        published = self._metadata.image
        assert image.offset >= published.offset, f"offset {image.offset} published after {published.offset}"
        why = unsupported(delta, image)
        if why is not None:
            raise UnsupportedMetadata(why)
        with self._contained("the broker's configuration"):
            self._config.apply(delta, image)
        for subsystem in self._subsystems:
            with self._contained(subsystem.name):
                yield from subsystem.publish(delta, image)
        is_first = published is EMPTY_IMAGE
        log_changes(self._config.node_id, published, delta, image)
        self._metadata.image = image
        for function in self._metadata.on_published:
            with self._contained(f"{function}", is_first=is_first):
                function(image)

    @contextmanager
    def _contained(self, what: str, *, is_first: bool | None = None) -> Iterator[None]:
        """Contains the failure of one part to follow the metadata: a request led here. The other parts still follow, and so
        does this one with the next image. A node whose first image fails does not start.
        """
        try:
            yield
        except Exception as failure:
            is_first = self._metadata.image is EMPTY_IMAGE if is_first is None else is_first
            if is_first or cause_of(failure) is not None:
                raise
            log.exception("a bug: applying the metadata to %s failed", what)
