"""Share partitions: which records are in flight, acquired or acknowledged (KIP-932)."""
