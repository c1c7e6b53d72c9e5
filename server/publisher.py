"""The publication of metadata: the subsystems of a node follow a new image, in a fixed order."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..metadata.delta import PARTS, MetadataDelta
from ..metadata.image import EMPTY_IMAGE, MetadataImage
from ..metadata.missed_changes import missed_changes
from ..metadata.unsupported import unsupported
from .change_log import log_changes
from .runtime.halting import UnsupportedMetadata, cause_of
from .runtime.metadata_cache import MetadataCache
from .runtime.sliced_work import Steps
from .runtime.subsystem import Subsystem

if TYPE_CHECKING:
    from .config.broker_config import BrokerConfig

publisher_log = logging.getLogger("odradek.publisher")
_CONFIGURATION = "the broker's configuration"


class _Behind(NamedTuple):
    """A part that is behind: the last image that it followed, and the last delta that it failed on."""

    followed: MetadataImage
    tried: MetadataDelta


class Publisher:
    """Makes the subsystems of a node follow a new image, in a fixed order: a partition exists before Metadata names it.

    1. the broker's dynamic configuration, since logs and roles are made by it;
    2. the subsystems that the change concerns, in the order of their start: access rules, logs and roles of partitions,
       coordinators, whose shards live in some of them;
    3. the image that Metadata and the other handlers answer from.

    Thousands of partitions take a while, so there are steps (runtime/sliced_work.py), between which other work may have the
    loop. Partitions with coordinators come last, in one step with the coordinators: no shard outlives its leadership.
    """

    def __init__(self, config: BrokerConfig, metadata: MetadataCache, subsystems: Sequence[Subsystem]) -> None:
        self._config = config
        self._metadata = metadata
        self._subsystems = subsystems
        #: The parts that could not follow the last image.
        self._behind: dict[str, _Behind] = {}

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
        self._metadata.being_published = image
        try:
            yield from self._followed(published, delta, image)
        finally:
            self._metadata.being_published = None

    def _followed(self, published: MetadataImage, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        is_first = published is EMPTY_IMAGE
        changed = PARTS if is_first else delta.parts()
        if not changed.isdisjoint(("features", "configs")) or _CONFIGURATION in self._behind:
            yield from self._follow_configuration(delta, image)
        for subsystem in self._subsystems:
            if not changed.isdisjoint(subsystem.interest) or subsystem.name in self._behind:
                with self._contained(subsystem.name, delta, is_first=is_first):
                    missed = yield from self._missed(subsystem.name, delta, image)
                    yield from subsystem.publish(missed, image)
        log_changes(self._config.node_id, published, delta, image)
        self._metadata.image = image
        for function in self._metadata.on_published:
            with self._contained(f"{function}", delta, is_first=is_first):
                function(image)

    def _follow_configuration(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        why = unsupported(delta, image, is_tiered=self._config.is_tiered)
        if why is not None:
            raise UnsupportedMetadata(why)
        with self._contained(_CONFIGURATION, delta, is_first=self._metadata.image is EMPTY_IMAGE):
            missed = yield from self._missed(_CONFIGURATION, delta, image)
            self._config.apply(missed, image)

    def _missed(self, what: str, delta: MetadataDelta, image: MetadataImage) -> Steps[MetadataDelta]:
        """Returns the delta for a part: `delta`, unless it failed on the last one. Then this takes the time of a comparison
        of two images, once for each image until the part follows again.
        """
        behind = self._behind.get(what)
        if behind is None:
            return delta
        missed = yield from missed_changes(*behind, image)
        self._behind[what] = behind._replace(tried=missed)
        return missed

    @contextmanager
    def _contained(self, what: str, delta: MetadataDelta, *, is_first: bool) -> Iterator[None]:
        """Contains the failure of one part to follow the metadata: a request led here. The other parts still follow. This
        one follows with the next image, whatever changes in it, everything since the last image that it followed. A node
        whose first image fails does not start.
        """
        try:
            yield
            self._behind.pop(what, None)
        except Exception as failure:
            self._behind.setdefault(what, _Behind(delta.image, delta))
            if is_first or cause_of(failure) is not None:
                raise
            publisher_log.exception("a bug: applying the metadata to %s failed", what)
