"""Streams groups of KIP-1071: the coordinator knows the topology, and assigns tasks instead of partitions."""
