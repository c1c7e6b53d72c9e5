"""Pure machines that decide about partitions, replicas and the cluster. They do not know the disk or the clock."""
