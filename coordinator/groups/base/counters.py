"""Counters of all group shards on a broker: plain integers that only grow, read by metrics only.

Decisions increment them, replay never does: the coordinator that made a loaded decision has counted it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupCounters:
    offset_commits: int = 0
    """Committed offsets, including those in transactions."""
    offset_deletions: int = 0
    """Offsets deleted on request."""
    offset_expirations: int = 0
    classic_rebalances: int = 0
    """Completed rebalances: the leader has sent its assignments."""
    consumer_rebalances: int = 0
    """New group epochs after changes of members, subscriptions or topics."""
    share_rebalances: int = 0
    streams_rebalances: int = 0
    descriptions_kept: int = 0
    """Stored topology descriptions (KIP-1331)."""
    descriptions_refused: int = 0
    descriptions_told: int = 0
    descriptions_deleted: int = 0
