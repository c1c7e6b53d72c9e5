"""Ids of nodes with a meaning of their own."""

from __future__ import annotations

#: No node: no leader, no vote.
NO_NODE = -1
#: In place of a replica's id in a request: the sender is a consumer.
CONSUMER = -1
#: The same, of a consumer that also reads from followers, and before the high watermark has reached an epoch's start.
DEBUGGING_CONSUMER = -2
#: In place of the leader in a PartitionChangeRecord: the leader stays.
LEADER_UNCHANGED = -2
