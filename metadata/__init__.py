"""What the cluster is: records of the metadata log, the image that they add up to, and every configuration key."""
