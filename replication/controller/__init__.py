"""What the active controller decides: topics, partitions, brokers, configs."""
