"""Decisions of mirrors: partitions that follow another cluster, offset for offset (docs/development/mirror.md)."""
