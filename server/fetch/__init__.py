"""Fetch between its endpoint and the partitions: sessions, reads, waits, large fetches, followers."""
