"""The plan of retention of a leader that has just begun."""

from __future__ import annotations

from typing import Any

from odradek.tiers.cache import RemoteLogMetadataCache
from odradek.tiers.lineage import Epochs
from odradek.tiers.retained_segments import RetainedSegments
from odradek.tiers.retention import Retention, RetentionPlan


def leaders_plan(
    cache: RemoteLogMetadataCache, epochs: Epochs, retention: Retention, *, log_end_offset: int, **ends: Any
) -> RetentionPlan:
    """`ends`: the other arguments of `RetainedSegments.plan`."""
    retained = RetainedSegments(cache)
    for _ in retained.update_in_steps(epochs, log_end_offset):
        pass
    return retained.plan(retention, **ends)
