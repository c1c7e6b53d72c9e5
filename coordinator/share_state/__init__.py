"""Share coordinator: one shard per partition of `__share_group_state`."""
