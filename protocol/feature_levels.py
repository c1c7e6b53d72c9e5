"""Levels of features with which behaviour begins (KIP-584)."""

from __future__ import annotations

#: transaction.version: each end has an epoch of its own, above that of the data, and a write adds its partition to the
#: transaction (KIP-890, KIP-1228).
TRANSACTIONS_BUMP_EPOCHS = 2
#: share.version: groups have dead-letter queues.
SHARE_GROUPS_HAVE_DEAD_LETTERS = 2
