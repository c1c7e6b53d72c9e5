"""The exception that ends a connection whose peer broke the protocol."""

from __future__ import annotations


class ProtocolViolation(Exception):
    """The peer broke the protocol; the words say how. The connection ends."""
