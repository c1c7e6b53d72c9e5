"""Tiered storage (KIP-405): closed segments of logs in a remote store. Imported where it is enabled."""
