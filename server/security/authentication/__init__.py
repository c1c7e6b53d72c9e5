"""Authentication of connections by SASL (KIP-12, KIP-43, KIP-152, KIP-368)."""
