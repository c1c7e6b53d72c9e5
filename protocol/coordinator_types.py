"""Types of the keys whose coordinator FindCoordinator names."""

from __future__ import annotations

#: The id of a group.
GROUP = 0
#: A transactional id.
TRANSACTION = 1
#: A partition that a share group reads (KIP-932).
SHARE = 2
