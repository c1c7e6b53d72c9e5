"""The commits of a node, which note the decisions of its controller."""

from __future__ import annotations

from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage
from odradek.metadata.transactions import MetadataTransactions
from odradek.server.controller.commits import Appended, Commits
from odradek.server.controller.image_publishing import ImagePublisher, ImagePublishing
from odradek.server.controller.metadata_log import QuorumLog


class NotedCommits(Commits):
    """Commits up to `image`. `decisions`: those that are in the log. `forgotten`: how often all were dropped.

    `is_replaced`, `in_transaction`: as the test sets them.
    """

    is_replaced = False
    in_transaction = False

    def __init__(self, image: MetadataImage, *, offset: int | None = None) -> None:
        no_log: QuorumLog = None  # type: ignore[assignment]
        super().__init__(no_log, MetadataDelta(image), image, MetadataTransactions())
        self.decisions: list[Appended] = []
        self.forgotten = 0
        self._image = image
        if offset is not None:
            self.offset = offset

    def image(self) -> MetadataImage:
        return self._image

    def appended(self, decision: Appended) -> None:
        self.decisions.append(decision)

    def forget_appended(self) -> None:
        self.forgotten += 1


def publishing_of(commits: Commits, *, end_offset: int) -> ImagePublishing:
    """Returns the publishing of a node that has published everything below `end_offset`, and publishes nothing more."""

    def unexpected(*arguments: object) -> None:
        raise AssertionError(arguments)

    no_publisher: ImagePublisher = None  # type: ignore[assignment]
    images = ImagePublishing(no_publisher, lambda: True, published=unexpected, loaded=unexpected, failed=unexpected)
    images._commits, images.end_offset = commits, end_offset
    return images
