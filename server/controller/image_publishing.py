"""Publishes the image of what the quorum has committed, one image at a time.

While an image is being published, in slices, further commits are collected for the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from ... import buggify
from ...metadata.delta import MetadataDelta
from ...metadata.image import MetadataImage
from ..runtime.halting import cause_of, unusable
from ..runtime.sliced_work import SlicedWork, without_gc
from .commits import Commits

log = logging.getLogger("odradek.quorum")


class ImagePublisher(Protocol):
    """Makes all parts of the node follow an image. `delta` leads to it from the last one."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None: ...

    def steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]: ...


class ImagePublishing:
    """Replays commits and publishes them. `is_caught_up`: returns whether this node has what is known to be committed.

    - `published` is called after each image with the offset below which everything is published;
    - `loaded` when a fetched snapshot has replaced the commits;
    - `failed` when committed records cannot be read, or an image cannot be published.
    """

    def __init__(
        self,
        publisher: ImagePublisher,
        is_caught_up: Callable[[], bool],
        *,
        published: Callable[[int], None],
        loaded: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._on_published = published
        self._on_loaded = loaded
        self._on_failed = failed
        #: Done when this node has published everything that was committed when it joined the quorum.
        self.caught_up: asyncio.Future[None]
        #: Everything below this offset is published; -1 before the first image.
        self.end_offset = -1
        self._publisher = publisher
        self._is_caught_up = is_caught_up
        self._commits: Commits | None = None
        self._is_suspended = False
        self._unpublished = False
        self._publishing = SlicedWork(self._publishing_failed)
        self._loading = SlicedWork(lambda failure: self._on_failed(unusable("a snapshot", failure)))

    @property
    def commits(self) -> Commits:
        assert self._commits is not None, "the controller has not been started"
        return self._commits

    @property
    def committed_offset(self) -> int:
        """Everything below this offset is committed and replayed; 0 before the start."""
        return self._commits.offset if self._commits is not None else 0

    def begin(self, commits: Commits) -> None:
        """Begins with the state of the opened log. The first image is published with the next commits."""
        self.caught_up = asyncio.get_running_loop().create_future()
        self._commits, self._unpublished = commits, True

    def begin_with(self, commits: Commits, delta: MetadataDelta, image: MetadataImage) -> None:
        """Begins with a first image that is complete, and publishes it before this returns."""
        self.begin(commits)
        self._unpublished = False
        self._publisher.publish(delta, image)
        self._published(image)

    def advance(self, end_offset: int) -> None:
        """Replays everything below `end_offset`, which is committed, and publishes it."""
        try:
            if self.commits.advance(end_offset):
                self._unpublished = True
        except Exception as error:
            self._on_failed(unusable(f"the metadata log from offset {self.commits.offset} on", error))
            return
        if not self._unpublished:
            return
        late_s = 0.0 if buggify.active is None else buggify.active.delay_s(buggify.HESITANT_PUBLISHER)
        if late_s:
            asyncio.get_running_loop().call_later(late_s, self._publish_late)
        else:
            self._publish()

    def _publish_late(self) -> None:
        if not self._is_suspended:
            self._publish()

    def load_replaced(self) -> None:
        """Loads a fetched snapshot that has replaced the commits, unless this has begun."""
        if self.commits.is_replaced and not self._loading.is_busy:
            self._loading.begin(without_gc(self.commits.load()), self._loaded)

    def _loaded(self) -> None:
        """Has a loaded snapshot published even if no records follow it."""
        self._unpublished = True
        self._on_loaded()

    def suspend(self) -> None:
        """Replays commits from now on without publishing them: the node stops."""
        self._is_suspended = True

    def stop(self) -> None:
        self._publishing.stop()
        self._loading.stop()

    def _publish(self) -> None:
        """Publishes what is committed, unless an earlier image is still being published."""
        if self._unpublished and not self._publishing.is_busy and self._may_publish():
            self._unpublished = False
            delta, image = self.commits.take()
            steps = iter(()) if self._is_suspended else self._publisher.steps(delta, image)
            self._publishing.begin(steps, lambda: self._published(image))

    def _may_publish(self) -> bool:
        """Returns whether the image is recent enough to publish. With an old image the broker would assume roles that
        other brokers have taken over.
        """
        if self.commits.is_replaced:
            return False
        return self.end_offset >= 0 or self._is_caught_up()

    def _published(self, image: MetadataImage) -> None:
        self.end_offset = image.offset + 1
        if not self.caught_up.done():
            self.caught_up.set_result(None)
        self._on_published(self.end_offset)
        self._publish()

    def _publishing_failed(self, failure: Exception) -> None:
        """Handles a failed publication. The publisher isolates failing subscribers; a failure here is a first image
        that cannot be served, a reason to halt, or a bug.
        """
        if not self.caught_up.done() or cause_of(failure) is not None:
            self._on_failed(unusable("an image", failure))
        else:
            log.error("a bug: an image was not published", exc_info=failure)
            self._unpublished = True
