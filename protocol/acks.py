"""Acknowledgements that a Produce asks for."""

from __future__ import annotations

#: The response waits for all replicas of the ISR (`acks=all`).
ALL_IN_SYNC = -1
