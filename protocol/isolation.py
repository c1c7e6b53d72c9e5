"""Isolation levels of reads (KIP-98)."""

from __future__ import annotations

#: Records up to the high watermark.
READ_UNCOMMITTED = 0
#: Records up to the last stable offset, without those of aborted transactions.
READ_COMMITTED = 1
