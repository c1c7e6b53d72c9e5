"""Member epochs with a meaning of their own, in the heartbeats of KIP-848 and KIP-1071."""

from __future__ import annotations

#: The member joins the group.
JOIN_EPOCH = 0
#: The member leaves the group.
LEAVE_EPOCH = -1
#: A static member leaves, and will come back under its instance id.
LEAVE_STATIC_EPOCH = -2
