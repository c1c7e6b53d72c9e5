"""Metrics of damaged records, of the verification of logs and of healing from other replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from ..services import Services

_COUNTERS = {
    "damage_ranges_found": ("ranges_found", "Damaged ranges that readers and the scrubber have found."),
    "damage_ranges_healed": ("ranges_healed", "Damaged ranges that were repaired from another replica."),
    "damage_bytes_healed": ("bytes_healed", "Bytes of records that were fetched for repairs."),
    "damage_healings_failed": ("healings_failed", "Failed attempts to repair a partition."),
    "damage_reads_refused": ("reads_rejected", "Reads of damaged records."),
    "damage_bad_fetches": (
        "bad_fetches",
        "Fetch responses of leaders with damaged records.",
    ),
    "damage_indexes_rebuilt": ("indexes_rebuilt", "Indexes that did not match their segment and were rebuilt."),
    "scrub_bytes": ("scrubbed_bytes", "Bytes of segments that were verified."),
    "scrub_segments": ("scrubbed_segments", "Segments that were verified."),
    "scrub_rounds": ("scrub_rounds", "Verifications of all segments."),
}


def damage(services: Services) -> Iterator[Metric]:
    for name, (counter, words) in _COUNTERS.items():
        yield CounterMetricFamily(f"odradek_{name}", words, value=getattr(services.node.damage, counter))
    yield GaugeMetricFamily(
        "odradek_scrub_last_round_time_seconds",
        "End of the last verification of all segments, in seconds since 1970; 0 before the first.",
        value=services.node.damage.last_round_ms / 1000,
    )
    yield GaugeMetricFamily(
        "odradek_scrub_last_round_duration_seconds",
        "Duration of the last verification of all segments, in seconds.",
        value=services.node.damage.last_round_took_ms / 1000,
    )
    yield from _ranges(services)


def _ranges(services: Services) -> Iterator[Metric]:
    """Metrics of present damage: a sample for each range, so that a scrape names its offsets too."""
    labels = ("topic", "partition")
    count = GaugeMetricFamily("odradek_damage_ranges", "Damaged ranges of a partition.", labels=labels)
    offsets = GaugeMetricFamily("odradek_damage_offsets", "Offsets of a partition that are damaged.", labels=labels)
    size = GaugeMetricFamily("odradek_damage_bytes", "Bytes of a partition's files that are damaged.", labels=labels)
    first = GaugeMetricFamily(
        "odradek_damage_first_offset",
        "The first offset of a damaged range. The label next_offset is the offset after the range.",
        labels=(*labels, "next_offset"),
    )
    for partition in services.partitions.hosted:
        damaged = partition.log.damage
        if partition.offline or not damaged:
            continue
        of = [partition.topic, str(partition.index)]
        ranges = list(damaged)
        count.add_metric(of, len(ranges))
        offsets.add_metric(of, sum(one.next_offset - one.first_offset for one in ranges))
        size.add_metric(of, sum(one.size for one in ranges))
        for one in ranges:
            first.add_metric([*of, str(one.next_offset)], one.first_offset)
    yield from (count, offsets, size, first)
