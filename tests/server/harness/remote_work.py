"""The shared parts of remote logs, with the test in the place of the metadata topic and of the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.client.peers import Peers
from odradek.metadata.image import MetadataImage
from odradek.server.controller.leaders import Leaders
from odradek.server.remote.work import RemoteWork
from odradek.server.runtime.lazy import Lazy
from odradek.tiers.metadata_topic import Followed
from odradek.tiers.segment_metadata import RemoteLogSegmentMetadata

from tests.server.harness.images import cache_of
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.set_clock import SetClock


class ScriptedWork(RemoteWork):
    """`is_current`: whether the image has everything that was committed. Failed work is tried again at once."""

    events: Any
    store: Any

    def __init__(self, events: Any, store: Any, **properties: str) -> None:
        self.is_current = True
        self.metadata = cache_of(MetadataImage())
        config = {key.replace("_", "."): value for key, value in properties.items()}
        node = node_of(config, clock=SetClock(), metadata=self.metadata)
        leaders = Leaders(self.metadata, NotedPartitions(), inter_broker_listener="P", node_id=node.identity.node_id)
        super().__init__(
            node, leaders, Lazy(lambda: Peers("test")), events, store, has_commits_until=lambda ago_ms: self.is_current
        )

    def backoff_s(self, failures: int) -> float:
        return 0


def followed_with(segments: Iterable[RemoteLogSegmentMetadata]) -> Followed:
    """Returns a partition whose events are read: those of its segments."""
    followed = Followed(0)
    for segment in segments:
        followed.cache.apply(segment)
    return followed
