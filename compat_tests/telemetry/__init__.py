"""Clients that push their metrics to the broker (KIP-714)."""
