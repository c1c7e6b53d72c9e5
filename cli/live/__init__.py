"""`odradek top`: a cluster as it changes."""
