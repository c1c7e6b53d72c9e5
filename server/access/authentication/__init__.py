"""Logins of clients and nodes: SASL mechanisms, and what they check."""
