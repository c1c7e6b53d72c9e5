"""The links of a cluster: it follows the configs that name them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ...metadata.image import BROKER_RESOURCE
from ...replication.mirror.link import InvalidLink, Link, parse_link, properties_of_links
from .here import Here
from .link import LinkFollower

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage

log = logging.getLogger("odradek.mirror")

#: The resource of configs of all brokers.
_ALL_BROKERS = ""


class Mirrors:
    """`links`: those that are followed, by name."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self.links: dict[str, LinkFollower] = {}
        #: Why links are not followed.
        self.invalid: dict[str, str] = {}
        self._endings: set[asyncio.Task[None]] = set()

    def published(self, image: MetadataImage) -> None:
        wanted = self._wanted(image)
        for name, follower in list(self.links.items()):
            link = wanted.get(name)
            if link is None or _with_settings_of(link, follower.link) != link:
                self._end(self.links.pop(name))
        for name, link in wanted.items():
            if name not in self.links:
                self.links[name] = LinkFollower(link, self._here)
            self.links[name].published(link, image)

    def _wanted(self, image: MetadataImage) -> dict[str, Link]:
        found: dict[str, Link] = {}
        invalid: dict[str, str] = {}
        for name, properties in properties_of_links(image.config(BROKER_RESOURCE, _ALL_BROKERS)).items():
            try:
                found[name] = parse_link(name, properties)
            except InvalidLink as error:
                invalid[name] = str(error)
                if self.invalid.get(name) != str(error):
                    log.error("link %s is not followed: %s", name, error)
        self.invalid = invalid
        return found

    def _end(self, follower: LinkFollower) -> None:
        task = asyncio.get_running_loop().create_task(follower.stop(), name=f"end of link {follower.link.name}")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def stop(self) -> None:
        for follower in self.links.values():
            self._end(follower)
        self.links = {}
        await asyncio.gather(*self._endings, return_exceptions=True)


def _with_settings_of(link: Link, running: Link) -> Link:
    """The running link with those settings of `link` that it takes as it runs."""
    return replace(
        running, state=link.state, throttle=link.throttle, linger_ms=link.linger_ms, cuts_diverged=link.cuts_diverged
    )
