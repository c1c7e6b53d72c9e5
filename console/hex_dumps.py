"""Bytes as a hex dump."""

from __future__ import annotations

_HEX_COLUMNS, MOST_HEX_BYTES = 16, 16_384


def hex_dump(data: bytes) -> str:
    """Lines of an offset, sixteen bytes, and their characters, with dots for those that are none."""
    lines = []
    for start in range(0, min(len(data), MOST_HEX_BYTES), _HEX_COLUMNS):
        part = data[start : start + _HEX_COLUMNS]
        text = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {text}")
    if len(data) > MOST_HEX_BYTES:
        lines.append(f"… {len(data) - MOST_HEX_BYTES} more bytes")
    return "\n".join(lines)
