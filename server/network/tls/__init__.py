"""Connections of clients over TLS."""
