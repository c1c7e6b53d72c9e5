"""The scenario that every introduction to Kafka tells, played on real processes by real clients: docs/failover.md."""
