"""Sockets below the connections: addresses of peers, ports that are bound, and accepting."""
