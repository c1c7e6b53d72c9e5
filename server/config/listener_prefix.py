"""Prefixes of the keys of one listener, and of one SASL mechanism on it (KIP-103, KIP-226)."""

from __future__ import annotations


def listener_prefix(listener: str) -> str:
    """Returns the prefix of a listener's own keys; its name is in lower case there."""
    return f"listener.name.{listener.lower()}."


def mechanism_prefix(listener: str, mechanism: str) -> str:
    return f"{listener_prefix(listener)}{mechanism.lower()}."
