"""Requests of Produce and Fetch between their endpoints and the partitions: sessions, waits, transactions."""
