"""Metrics of links to other clusters: how far the partitions that this broker leads are behind their sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from ..mirror.link import LinkFollower
    from ..mirror.subsystem import Mirrors

_PLACE = ("link", "topic", "partition")
_LAGS = {
    "records": "Offsets of a mirrored partition that the source has and this broker has not; -1 for not known.",
    "bytes": "An estimate of their bytes, by the mean size of what is here; -1 for not known.",
    "seconds": "Time since the partition last had all of the source; -1 for never.",
}


def mirrors(mirrored: Mirrors, now_ms: int) -> Iterator[Metric]:
    yield from _lags(mirrored, now_ms)
    states = GaugeMetricFamily("odradek_mirror_partitions", "Mirrored partitions.", labels=("link", "state"))
    readable = GaugeMetricFamily("odradek_mirror_source_up", "1 while the source can be read.", labels=("link",))
    refused = GaugeMetricFamily("odradek_mirror_refused_topics", "Topics that are not followed.", labels=("link",))
    skipped = GaugeMetricFamily("odradek_mirror_skipped_groups", "Groups that are not copied.", labels=("link",))
    fetched = CounterMetricFamily("odradek_mirror_fetched_bytes", "Bytes fetched of the source.", labels=("link",))
    for name, follower in mirrored.links.items():
        for state, count in Counter(follower.state_of(one) for one in follower.partitions.values()).items():
            states.add_metric([name, state], count)
        readable.add_metric([name], not follower.error)
        refused.add_metric([name], len(follower.refused))
        skipped.add_metric([name], len(follower.skipped))
        fetched.add_metric([name], follower.fetched_bytes)
    yield from (states, readable, refused, skipped, fetched)


def _lags(mirrored: Mirrors, now_ms: int) -> Iterator[Metric]:
    """The lags of each partition, and of each link: the sums, and the longest time."""
    of_partitions = {
        unit: GaugeMetricFamily(f"odradek_mirror_lag_{unit}", words, labels=_PLACE) for unit, words in _LAGS.items()
    }
    of_links = {
        unit: GaugeMetricFamily(f"odradek_mirror_link_lag_{unit}", f"{words} Of all partitions.", labels=("link",))
        for unit, words in _LAGS.items()
    }
    for name, follower in mirrored.links.items():
        lags = {place: _lag(follower, place, now_ms) for place in follower.partitions}
        for (topic, index), lag in lags.items():
            for unit, value in lag.items():
                of_partitions[unit].add_metric([name, topic, str(index)], value)
        for unit in _LAGS:
            known = [lag[unit] for lag in lags.values() if lag[unit] >= 0]
            whole = max(known, default=-1) if unit == "seconds" else sum(known)
            of_links[unit].add_metric([name], whole)
    yield from of_partitions.values()
    yield from of_links.values()


def _lag(follower: LinkFollower, place: tuple[str, int], now_ms: int) -> dict[str, float]:
    one = follower.partitions[place]
    log = one.hosted.log
    if one.source_end < 0:
        return dict.fromkeys(_LAGS, -1)
    records = max(0, one.source_end - log.log_end_offset)
    kept = log.log_end_offset - log.log_start_offset
    mean = log.size / kept if kept > 0 else 0
    seconds = -1.0 if one.caught_up_ms < 0 else max(0, now_ms - one.caught_up_ms) / 1000 if records else 0.0
    return {"records": records, "bytes": int(records * mean), "seconds": seconds}
