"""Records at the begin of a table, read again: what their values show, and how many the log still has.

The sample of a table are the first SAMPLE_ROWS values from where it begins, an equal share of each partition. So the types
that follow from it are those of the records, wherever commits fell.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from ..columns import Plan
from ..columns.cluster import Cluster
from ..columns.inference import SAMPLE_ROWS, Inference
from ..columns.readers import open_split
from ..columns.split_reader import ReadOptions


def sample(cluster: Cluster, plan: Plan, *, skip_unreadable: bool, rows: int = SAMPLE_ROWS) -> Inference:
    """Returns the inference from the first values of each partition."""
    share = -(-rows // max(1, len(plan.partitions)))
    options = ReadOptions(("offset", "value"), skip_unreadable)
    found = Inference()
    for partition in plan.partitions:
        left = share
        for split in partition.splits:
            for batch in open_split(split, options, cluster) if left > 0 else ():
                values = batch.column("value").drop_null().slice(0, left)
                found, left = found.widen(Inference.of(values, rows=None)), left - len(values)
                if left <= 0:
                    break
    return found


def count_below(cluster: Cluster, plan: Plan, ends: Mapping[int, int], *, skip_unreadable: bool) -> int:
    """The number of records of a plan below the offsets."""
    options, count = ReadOptions(("offset",), skip_unreadable), 0
    for split in plan.splits:
        end = ends.get(split.partition, 0)
        if split.first_offset < end:
            for batch in open_split(split, options, cluster):
                count += pc.sum(pc.less(batch.column("offset"), end)).as_py() or 0
                if batch.column("offset")[-1].as_py() >= end:
                    break
    return count
