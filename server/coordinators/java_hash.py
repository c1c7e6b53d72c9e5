"""Java's hash of a text, which gives the partition of a group or of a transactional id."""

from __future__ import annotations

import struct


def java_hash(text: str) -> int:
    """Computes Java's `Utils.abs(text.hashCode())`, which uses UTF-16 units and 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for unit in units[1::2] if text.isascii() else struct.unpack(f">{len(units) // 2}H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    if value >= 1 << 31:
        value -= 1 << 32
    return 0 if value == -(1 << 31) else abs(value)
