"""TLS of listeners and of connections to other nodes."""
