"""The transaction coordinator: a state machine per transactional id, a shard per partition of `__transaction_state`."""
