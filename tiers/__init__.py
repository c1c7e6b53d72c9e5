"""Tiered storage: closed segments of logs in a remote store (KIP-405)."""
