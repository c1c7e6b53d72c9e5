"""`odradek tier`: what a cluster has in its remote store."""
