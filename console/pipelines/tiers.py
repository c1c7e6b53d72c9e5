"""Tiered topics: what of their logs is on the disks of brokers alone, and what the store lacks.

The offsets come from ListOffsets (KIP-405, KIP-1005). Only brokers know which of them are in closed segments: bytes and
segments that wait for their copy are metrics of nodes (KIP-963).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...admin.log_offsets import offsets_at
from ...admin.topics import describe_topics
from ...protocol.log_places import LATEST, LATEST_TIERED
from ..cluster.node_metrics import Metrics, NodeMetrics
from .pipeline import MOST_PIPELINES, Kind, Pipeline, Reading, bounded

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ..cluster.model import TopicRow

_LAG_BYTES = "kafka_server_brokertopicmetrics_remotecopylagbytes"
_LAG_SEGMENTS = "kafka_server_brokertopicmetrics_remotecopylagsegments"


def read_tiers(admin: Admin, topics: Iterable[TopicRow], away: frozenset[int], metrics: NodeMetrics) -> list[Pipeline]:
    """Raises RequestFailed."""
    names = [one.name for one in topics if one.facts is not None and one.facts.is_tiered][:MOST_PIPELINES]
    if not names:
        return []
    places = bounded(
        (topic.name, one.partition_index)
        for topic in describe_topics(admin, names)
        for one in topic.partitions
        if one.leader_id >= 0 and one.leader_id not in away
    )
    ends, copied = offsets_at(admin, places, LATEST), offsets_at(admin, places, LATEST_TIERED)
    readings: dict[str, list[Reading]] = defaultdict(list)
    for place in places:
        if place in ends and place in copied:
            position = copied[place] + 1
            readings[place[0]].append(Reading(*place, position, ends[place], max(0, ends[place] - position)))
    read = metrics.read()
    if read.missing:  # a sum without them is too small, and 0 where they lead all that waits
        unknown = next(iter(read.missing.values()))
        return [replace(_pipeline(name, readings[name], None), unknown=unknown) for name in names]
    lags = _copy_lags(read)
    return [_pipeline(name, readings[name], lags.get(name)) for name in names]


def _pipeline(name: str, readings: list[Reading], lag: tuple[int, int] | None) -> Pipeline:
    lag_bytes, segments = lag if lag is not None else (None, None)
    state, tone = ("copied", "good") if segments == 0 else ("copying", "plain") if segments else ("tiered", "plain")
    return Pipeline(
        Kind.tier, name, "remote store", state, tone, tuple(readings), lag_bytes=lag_bytes, lag_segments=segments
    )


def _copy_lags(metrics: Metrics) -> dict[str, tuple[int, int]]:
    """Bytes and segments by topic, of all nodes together: each node counts the partitions that it leads."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for samples in metrics.samples.values():
        for one in samples:
            if one.name in (_LAG_BYTES, _LAG_SEGMENTS) and "topic" in one.labels:
                sums[one.labels["topic"]][one.name == _LAG_SEGMENTS] += one.value
    return {topic: (int(count), int(segments)) for topic, (count, segments) in sums.items()}
