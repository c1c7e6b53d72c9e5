"""Ids of nodes with a meaning of their own."""

from __future__ import annotations

#: No node: no leader, no vote.
NO_NODE = -1
