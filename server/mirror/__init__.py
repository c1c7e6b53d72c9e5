"""Partitions that follow another cluster (docs/development/mirror.md). Brokers without a link import nothing of it."""
