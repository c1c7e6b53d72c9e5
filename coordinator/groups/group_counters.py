"""Counters of the groups of a shard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupCounters:
    offset_commits: int = 0
    """Offsets, in transactions too."""
    offset_deletions: int = 0
    """Offsets that requests have deleted."""
    offset_expirations: int = 0
    classic_rebalances: int = 0
    """Completed ones: the leader has assigned."""
    consumer_rebalances: int = 0
    """New epochs of groups since members, subscriptions or topics are others."""
    share_rebalances: int = 0
    streams_rebalances: int = 0
    descriptions_kept: int = 0
    """Of topologies (KIP-1331)."""
    descriptions_rejected: int = 0
    descriptions_reported: int = 0
    descriptions_deleted: int = 0
