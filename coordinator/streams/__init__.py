"""Streams groups of KIP-1071: the coordinator keeps the topology, and assigns tasks instead of partitions."""
