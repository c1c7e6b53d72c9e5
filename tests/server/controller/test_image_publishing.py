"""Publication of committed images: before the first one is recent, and while the node stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from odradek.metadata.image import EMPTY_IMAGE
from odradek.server.controller.image_publishing import ImagePublishing


def _ignore(*_: object) -> None:
    """No event is expected."""


class Followed:
    """Commits whose images have an offset only, and the parts of a node that follow the images."""

    is_replaced = False

    def __init__(self) -> None:
        self.offset = 0
        self.followed: list[int] = []
        self.published: list[int] = []
        self.is_caught_up = True
        self.failure: Exception | None = None
        self.failed = 0
        self.failures: list[Exception] = []
        self.publishing = ImagePublishing(
            self,  # type: ignore[arg-type]
            lambda: self.is_caught_up,
            published=self.published.append,
            loaded=_ignore,
            failed=self.failures.append,
        )
        self.publishing.begin(self)  # type: ignore[arg-type]

    def advance(self, end_offset: int) -> bool:
        self.offset, before = end_offset, self.offset
        return end_offset > before

    def take(self) -> tuple[Any, Any]:
        return None, EMPTY_IMAGE._replace(offset=self.offset - 1)

    def publish(self, delta: Any, image: Any) -> None:
        raise AssertionError("no image is published in one step")

    def steps(self, delta: Any, image: Any) -> Iterator[None]:
        yield
        if self.failure is not None:
            self.failed += 1
            raise self.failure
        self.followed.append(image.offset)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the loop has other work meanwhile
            await asyncio.sleep(0)


async def test_suspended_node_replays_and_replies_but_its_parts_follow_nothing() -> None:
    """The replicas of the node are closed one after the other, and none of them may begin to lead meanwhile."""
    node = Followed()
    node.publishing.advance(5)
    await until(lambda: node.published == [5])
    assert node.followed == [4]
    node.publishing.suspend()
    node.publishing.advance(9)
    await until(lambda: node.published == [5, 9])
    assert node.followed == [4]
    assert node.publishing.committed_offset == 9


async def test_complete_first_image_is_published_once() -> None:
    node = Followed()
    images: list[Any] = []
    node.publish = lambda delta, image: images.append(image.offset)  # type: ignore[method-assign]
    node.offset, node.is_caught_up = 4, False
    node.publishing.begin_with(node, None, EMPTY_IMAGE._replace(offset=3))  # type: ignore[arg-type]
    assert (images, node.published, node.publishing.end_offset) == ([3], [4], 4)
    assert node.publishing.caught_up.done() and node.publishing.committed_offset == 4
    node.publishing.advance(4)
    await asyncio.sleep(0)
    assert node.followed == [], "there is nothing new"
    node.publishing.advance(5)
    await until(lambda: node.published == [4, 5])
    assert node.followed == [4]


async def test_nothing_is_published_before_the_first_commits() -> None:
    node = Followed()
    assert (node.publishing.end_offset, node.publishing.committed_offset) == (-1, 0)
    node.publishing.advance(0)
    await until(lambda: node.published)
    assert (node.published, node.followed) == ([0], [-1]), "an empty image is one, too"
    node.is_caught_up = False
    node.publishing.advance(1)
    await until(lambda: len(node.published) == 2)
    assert node.published == [0, 1]


async def test_first_image_waits_until_it_is_recent() -> None:
    """By an old image the broker would assume roles that other brokers have."""
    node = Followed()
    node.is_caught_up = False
    unopened = ImagePublishing(
        node,  # type: ignore[arg-type]
        lambda: True,
        published=_ignore,
        loaded=_ignore,
        failed=_ignore,
    )
    assert unopened.committed_offset == 0
    node.publishing.advance(5)
    node.publishing.advance(6)
    await asyncio.sleep(0)
    assert (node.followed, node.publishing.caught_up.done()) == ([], False)
    node.is_caught_up = True
    node.publishing.advance(7)
    await until(node.publishing.caught_up.done)
    assert (node.followed, node.published) == ([6], [7])


async def test_later_image_is_published_whether_it_is_recent_or_not() -> None:
    node = Followed()
    node.publishing.advance(5)
    await until(lambda: node.published == [5])
    node.is_caught_up = False
    node.publishing.advance(6)
    await until(lambda: node.published == [5, 6])
    assert node.followed == [4, 5]


async def test_first_image_that_cannot_be_published_fails_the_start_and_a_later_one_is_published_again() -> None:
    node = Followed()
    node.failure = LookupError("injected")
    node.publishing.advance(5)
    await until(lambda: node.failures)
    assert node.published == []

    node = Followed()
    node.publishing.advance(5)
    await until(lambda: node.published == [5])
    node.failure = LookupError("injected")
    node.publishing.advance(6)
    await until(lambda: node.failed == 1)
    node.failure = None
    node.publishing.advance(7)
    await until(lambda: node.published == [5, 7])
    assert (node.failures, node.followed) == ([], [4, 6])


async def test_image_that_was_not_published_is_published_with_the_next_look_at_the_commits() -> None:
    """The look comes with each response of the quorum's leader, also without new records."""
    node = Followed()
    node.publishing.advance(5)
    await until(lambda: node.published == [5])
    node.failure = LookupError("injected")
    node.publishing.advance(6)
    await until(lambda: node.failed == 1)
    node.failure = None
    node.publishing.advance(6)
    await until(lambda: node.published == [5, 6])
    assert node.followed == [4, 5]
