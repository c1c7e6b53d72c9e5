"""Pure state machines that decide about partitions, replicas and the cluster. They access neither the disk nor the
clock.
"""
