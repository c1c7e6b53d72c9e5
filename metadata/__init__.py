"""The metadata of a cluster: records of the metadata log, the image built from them, and every configuration key."""
