"""Epochs of fetch sessions and share sessions (KIP-227, KIP-932)."""

from __future__ import annotations

#: The request opens a session.
INITIAL_EPOCH = 0
#: The request closes its session, or has none.
FINAL_EPOCH = -1
#: The epoch after it is 1, since 0 opens a session.
LAST_EPOCH = (1 << 31) - 1
