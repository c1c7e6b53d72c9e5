"""Progress of pipelines that commit to groups of this broker: queries of Spark and archives.

The samples come from the metadata of a group's commits (`odradek.admin.pipeline_progress`). Their lag is that of their
groups (`group_lag.py`). Clients write the metadata, so the number of series is bounded as that of groups is.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...admin.pipeline_progress import PipelineProgress, is_pipeline_progress, newest_progress
from .group_lag import LIMIT_KEY

if TYPE_CHECKING:
    from ..runtime.sliced_work import Steps
    from ..services import Services

_LABELS = ("group", "kind")


def pipelines(services: Services) -> Steps[list[Metric]]:
    """Returns the families of pipelines, now. With more than the limit, those whose progress is the newest."""
    progress: dict[str, PipelineProgress] = {}
    for driver in services.coordinators.groups.shards():
        if driver.shard is None:
            continue
        for group, topics in list(driver.shard.state.offsets.groups()):
            yield
            for text in [one.metadata for partitions in topics.values() for one in partitions.values()]:
                if not is_pipeline_progress(text):
                    continue
                yield
                found = newest_progress([text])
                if found is not None and (group not in progress or found.at_ms >= progress[group].at_ms):
                    progress[group] = found
    limit = services.config.get(LIMIT_KEY)
    return _families(heapq.nlargest(limit, progress.items(), key=lambda one: one[1].at_ms))


def _families(progress: list[tuple[str, PipelineProgress]]) -> list[Metric]:
    words = "Unix time of a pipeline's newest progress: the end of its last batch, or its failure."
    last = GaugeMetricFamily("odradek_pipeline_progress_timestamp_seconds", words, labels=_LABELS)
    words = "1 for a pipeline whose last attempt failed; 0 for the others."
    failed = GaugeMetricFamily("odradek_pipeline_failed", words, labels=_LABELS)
    words = "Dead-letter records of a pipeline since its process began."
    dead_letters = CounterMetricFamily("odradek_pipeline_dead_letters", words, labels=_LABELS)
    words = "Records per second of a pipeline's last batch."
    rate = GaugeMetricFamily("odradek_pipeline_rows_per_second", words, labels=_LABELS)
    for group, one in progress:
        labels = [group, one.kind.value]
        last.add_metric(labels, one.at_ms / 1000)
        failed.add_metric(labels, float(bool(one.error)))
        if one.dead_letters is not None:
            dead_letters.add_metric(labels, one.dead_letters)
        if one.rows_per_s is not None:
            rate.add_metric(labels, one.rows_per_s)
    return [last, failed, dead_letters, rate]
