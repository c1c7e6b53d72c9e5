"""Security of connections: transport encryption (TLS), authentication and authorization."""
