"""The coordinator of transactions: one state machine per transactional id, one shard per partition of its topic."""
