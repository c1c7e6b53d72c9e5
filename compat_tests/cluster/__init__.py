"""Failover of a cluster, with real processes and real clients: docs/failover.md."""
