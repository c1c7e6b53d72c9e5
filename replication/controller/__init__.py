"""Decisions of the active controller: topics, partitions, brokers, configs."""
