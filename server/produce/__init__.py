"""Produce between its endpoint and the partitions: appends, rejected batches, waits, transactions."""
