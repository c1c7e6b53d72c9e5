"""The state of share partitions, kept in `__share_group_state` for whoever leads them (KIP-932)."""
