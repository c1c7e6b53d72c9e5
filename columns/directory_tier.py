"""The remote part of the topics of a data directory, by the metadata that is in the directory."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from contextlib import suppress

from ..client.properties import StoreSettings
from ..tiers.cache import RemoteLogMetadataCache
from ..tiers.events import DamagedMetadata, decode_event
from ..tiers.lineage import extended_epochs, highest_remote_offset, remote_start_offset
from ..tiers.metadata_snapshot import CorruptSnapshot, read_any_snapshot
from ..tiers.metadata_topic import MetadataPartition
from ..tiers.segment_metadata import METADATA_TOPIC, TopicIdPartition
from .batch_selection import Aborted
from .directory import TIER_SNAPSHOT, leader_epochs, topic_id_of
from .directory_plan import RemoteHead, plan_directory
from .file_reader import FileReader
from .plan import PartitionPlan
from .request import Request
from .segment import Segment
from .split import Split
from .split_reader import ReadOptions
from .tier import Tier


class DirectoryTier:
    """The remote part of the topics of a data directory, by the metadata that is in the directory.

    It has the logs of the metadata topic where the broker has replicas of it, and snapshots of what the broker has read.
    `settings`: the store; None where it is not named.
    """

    def __init__(self, settings: StoreSettings | None) -> None:
        self._tier = None if settings is None else Tier(settings)
        self._caches: dict[str, dict[TopicIdPartition, RemoteLogMetadataCache]] = {}

    def find(
        self, path: str, topic: str, partition: int, segments: Sequence[Segment], log_end: int
    ) -> RemoteHead | None:
        """The remote part of a partition; None without one."""
        topic_id = topic_id_of(path)
        if topic_id is None or topic == METADATA_TOPIC:
            return None
        directory = os.path.dirname(path)
        if directory not in self._caches:
            self._caches[directory] = _caches_in(directory)
        cache = self._caches[directory].get(TopicIdPartition(topic_id, topic, partition))
        if cache is None:
            return None
        own = leader_epochs(path, segments)
        epochs = extended_epochs(cache.segments(), own, segments[0].base_offset)
        start = remote_start_offset(cache, epochs)
        if start is None:
            return None
        latest = highest_remote_offset(cache, epochs, log_end)
        tier = self._tier

        def splits(head: Split, split_bytes: int, aborted: Sequence[Aborted]) -> tuple[Split, ...]:
            assert tier is not None
            ended = [(one.producer_id, one.first_offset) for one in aborted]
            return tier.splits(head, cache, latest, split_bytes, lambda _: ended)

        return RemoteHead(start, None if tier is None else splits)


def _caches_in(directory: str) -> dict[TopicIdPartition, RemoteLogMetadataCache]:
    """The segments of all partitions, by the metadata in a data directory."""
    states: list[MetadataPartition] = []
    for file in glob.glob(f"{glob.escape(directory)}/{TIER_SNAPSHOT}*.snapshot"):
        with suppress(CorruptSnapshot, OSError):
            states.append(read_any_snapshot(file))
    if glob.glob(f"{glob.escape(directory)}/{METADATA_TOPIC}-[0-9]*"):
        plan = plan_directory(f"{directory}/{METADATA_TOPIC}", Request(), lambda *_: None)
        states += [_read(one) for one in plan.partitions]  # newer than the snapshots
    return {
        partition: followed.cache
        for state in states
        for partition, followed in state.followed.items()
        if followed.cache.segments()
    }


def _read(plan: PartitionPlan) -> MetadataPartition:
    """The whole log of a partition of the metadata topic."""
    state = MetadataPartition(plan.partition)
    for split in plan.splits:
        for batch in FileReader(split, ReadOptions(("offset", "value"))):
            for offset, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                with suppress(DamagedMetadata):  # noted by `consume`
                    state.follow(decode_event(value or b"").partition, plan.end)
                state.consume(offset, value)
    return state
