"""Offsets with a meaning of their own, on the wire and in files."""

from __future__ import annotations

#: No offset: no open transaction, no batch of a producer, nothing copied.
NO_OFFSET = -1
#: The offset is not known yet: a follower has not fetched, a leader has committed nothing in its epoch.
UNKNOWN_OFFSET = -1
