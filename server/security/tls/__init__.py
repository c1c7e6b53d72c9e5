"""TLS of listeners and of connections to other nodes: stores, contexts, principals, handshakes.

`cryptography` and `pyjks` read keys and certificates (the extra `odradek[security]`). They are imported with the first
listener that uses TLS.
"""
