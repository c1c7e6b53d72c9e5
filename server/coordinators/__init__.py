"""Drivers of coordinator shards: groups, transactions, share-group state."""
