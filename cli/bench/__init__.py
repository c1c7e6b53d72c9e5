"""`odradek bench`: how fast a cluster writes, reads and responds."""
