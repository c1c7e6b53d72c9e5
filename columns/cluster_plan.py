"""The plan for a topic of a running cluster.

Records of closed segments come from files where DescribeLogDirs names a directory of this machine: one with the cluster's
and the broker's id in `meta.properties`, and the topic's id beside the segments. What a remote store has (tier.py) is read
from there, if the properties name it. The newest segment, and everything else, is fetched. So is what the files lack when
they are read: they may have moved since the plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..client.error_kinds import kind_of_code
from ..protocol.errors import ErrorCode
from ..protocol.log_places import EARLIEST, LATEST
from ..storage.files.failures import LogDirectoryFailure
from ..storage.files.meta_properties import InvalidMetaProperties, read_meta_properties
from ..tiers.segment_metadata import METADATA_TOPIC, TopicIdPartition
from .batch_selection import Aborted
from .cluster import LEAST_FETCH_BYTES, Cluster
from .cluster_errors import ClusterError, not_authorized
from .directory import segments_of, topic_id_of
from .divided_splits import splits_of_files
from .errors import ScanError
from .plan import PartitionPlan, Plan
from .readers import open_split
from .request import Request, bounded, chosen_partitions
from .segment import end_of
from .split import Split
from .split_reader import ReadOptions
from .transactions import transactions_of

if TYPE_CHECKING:
    from ..admin.topics import Topic
    from ..tiers.cache import RemoteLogMetadataCache
    from ..tiers.lineage import OffsetAndEpoch
    from .tier import MetadataEvents, Tier

#: An offset that no log has: a broker checks the right to read first, and then responds OFFSET_OUT_OF_RANGE.
_BEYOND_ANY_LOG = (1 << 63) - 2


def plan_topic(cluster: Cluster, topic: str, request: Request) -> Plan:
    """Raises ClusterError, InvalidScan, RemoteStoreUnavailable, ScanError."""
    return _planned(cluster, topic, request, cluster.tier)


def _planned(cluster: Cluster, topic: str, request: Request, tier: Tier | None) -> Plan:
    (described,) = cluster.described([topic])
    known = [partition.partition_index for partition in described.partitions]
    chosen = chosen_partitions(topic, known, request)
    asked = replace(described, partitions=[described.partitions[known.index(number)] for number in chosen])
    starts = cluster.offsets([asked], EARLIEST)
    ends = cluster.offsets([asked], LATEST, committed=request.committed)
    topic_id = described.topic_id.bytes if described.topic_id else None
    directories = _directories(cluster, topic, topic_id, chosen)
    tiered = None if tier is None or topic_id is None else _TieredHead(cluster, tier, topic_id, asked)
    plans = []
    for number in chosen:
        log_start, log_end = starts[topic, number], ends[topic, number]
        start, end = bounded(topic, number, log_start, log_end, request)
        fetched = Split(
            topic, number, start, end, None, topic_id, aborted=() if request.committed else None,
            first_timestamp=request.times[0], last_timestamp=request.times[1], client=cluster.client,
        )  # fmt: skip
        splits = _splits(fetched, log_end, directories.get(number, ()), request, tiered)
        plans.append(PartitionPlan(topic, number, start, end, log_start, log_end, splits))
    _check_right_to_read(cluster, plans)
    return Plan(topic, tuple(plans))


def _check_right_to_read(cluster: Cluster, plans: Sequence[PartitionPlan]) -> None:
    """Raises ClusterError where the user may not read the topic, whose files this machine or a store has."""
    for plan in plans:
        split = next((one for one in plan.splits if one.path is not None or one.remote is not None), None)
        if split is not None:
            check_right_to_read(cluster, split.topic, split.partition, split.topic_id)
            return


def check_right_to_read(cluster: Cluster, topic: str, partition: int, topic_id: bytes | None) -> None:
    """Raises ClusterError where the user may not read a topic, or where that is not known: by one Fetch without records."""
    split = Split(topic, partition, _BEYOND_ANY_LOG, _BEYOND_ANY_LOG, None, topic_id, aborted=None)
    code = ErrorCode(cluster.fetch(split, _BEYOND_ANY_LOG, LEAST_FETCH_BYTES).error_code)
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise not_authorized(topic)
    if code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
        raise ClusterError(f"topic {topic} cannot be read: {code.name}", kind_of_code(code))


def _directories(
    cluster: Cluster, topic: str, topic_id: bytes | None, partitions: Sequence[int]
) -> dict[int, list[str]]:
    """Partition -> its directories on this machine; nothing where the cluster does not name them."""
    found: dict[int, list[str]] = {}
    try:
        cluster_id, brokers = cluster.cluster_id(), cluster.log_directories(topic, partitions)
    except ClusterError:  # denied
        return found
    for broker in brokers:
        for directory in broker.log_dirs:
            path = directory.log_dir
            if not _is_of(path, cluster_id, broker.broker):
                continue
            for one in (one for named in directory.topics for one in named.partitions):
                log = f"{path}/{topic}-{one.partition_index}"
                if not one.is_future_key and topic_id is not None and topic_id_of(log) == topic_id:
                    found.setdefault(one.partition_index, []).append(log)
    return found


def _splits(
    fetched: Split, log_end: int, directories: Sequence[str], request: Request, tiered: _TieredHead | None
) -> tuple[Split, ...]:
    """Splits of closed segments that a directory of this machine has, then of those of a remote store, and fetched ones of
    the rest.
    """
    local, known = _local_splits(fetched, log_end, directories, request)
    head = fetched.part(fetched.first_offset, local[0].first_offset) if local else fetched
    remote = () if tiered is None or _is_empty(head) else tiered.splits(head, request.split_bytes, known)
    before = head.part(remote[-1].next_offset, head.next_offset) if remote else head
    after = fetched.part(local[-1].next_offset if local else fetched.next_offset, fetched.next_offset)
    made = [*remote, before, *local, after]
    return tuple(one for one in made if not _is_empty(one))


def _is_empty(split: Split) -> bool:
    return split.first_offset >= split.next_offset


def _local_splits(
    fetched: Split, log_end: int, directories: Sequence[str], request: Request
) -> tuple[tuple[Split, ...], tuple[Aborted, ...] | None]:
    """The splits of closed segments of a directory, and the aborted transactions that end in it."""
    for path in directories:
        with suppress(OSError, ScanError):
            segments = segments_of(path)
            if len(segments) < 2 or end_of(segments[-1])[0] < log_end:
                continue  # a follower that is behind: it may lack a marker, too
            first = max(fetched.first_offset, segments[0].base_offset)
            end = min(fetched.next_offset, segments[-1].base_offset)
            aborted = transactions_of(path, segments).aborted if request.committed else None
            if first >= end:
                return (), aborted
            local = replace(fetched.part(first, end), path=path, aborted=aborted)
            return splits_of_files(local, segments, request.split_bytes), aborted
    return (), None


class _TieredHead:
    """The remote part of a topic, for one plan. The metadata is read where a partition needs it."""

    def __init__(self, cluster: Cluster, tier: Tier, topic_id: bytes, topic: Topic) -> None:
        self._cluster = cluster
        self._tier = tier
        self._topic_id = topic_id
        self._topic = topic
        self._latest: dict[int, OffsetAndEpoch] | None = None
        self._caches: dict[TopicIdPartition, RemoteLogMetadataCache] | None = None

    def splits(self, head: Split, split_bytes: int, known: Sequence[Aborted] | None) -> tuple[Split, ...]:
        """Splits of what the store has of `head`. `known`: the aborted transactions that end behind it, where a directory
        has them.
        """
        if self._latest is None:
            self._latest = self._cluster.latest_tiered(self._topic)
        latest = self._latest.get(head.partition)
        if latest is None or latest.offset < head.first_offset:
            return ()
        if self._caches is None:
            partitions = [TopicIdPartition(self._topic_id, head.topic, one) for one in self._latest]
            self._caches = self._tier.caches(
                partitions, self._metadata_count(), partial(_metadata_events, self._cluster)
            )
        cache = self._caches[TopicIdPartition(self._topic_id, head.topic, head.partition)]

        def outcomes(offset: int) -> list[tuple[int, int]] | None:
            if known is not None:
                return [(one.producer_id, one.first_offset) for one in known]
            return self._cluster.aborted_of(head, offset)

        return self._tier.splits(head, cache, latest, split_bytes, outcomes)

    def _metadata_count(self) -> int:
        """The number of partitions of the metadata topic of tiered storage."""
        (described,) = self._cluster.described([METADATA_TOPIC])
        return len(described.partitions)


def _metadata_events(cluster: Cluster, next_offsets: Mapping[int, int]) -> dict[int, MetadataEvents]:
    """The records of partitions of the metadata topic of tiered storage, from these offsets on."""
    from .tier import MetadataEvents

    plan = _planned(cluster, METADATA_TOPIC, Request(list(next_offsets)), None)
    return {
        one.partition: MetadataEvents(one.log_start, one.end, _events(cluster, one, next_offsets[one.partition]))
        for one in plan.partitions
    }


def _events(cluster: Cluster, plan: PartitionPlan, next_offset: int) -> Iterator[tuple[int, bytes | None]]:
    for split in plan.splits:
        first = max(split.first_offset, next_offset)
        if first < split.next_offset:
            rest = split.part(first, split.next_offset)
            for batch in open_split(rest, ReadOptions(("offset", "value")), cluster):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _is_of(path: str, cluster_id: str, node_id: int | None) -> bool:
    if not os.path.isdir(path):
        return False
    with suppress(InvalidMetaProperties, LogDirectoryFailure):
        found = read_meta_properties(path)
        return found is not None and found.cluster_id == cluster_id and node_id in (None, found.node_id)
    return False
