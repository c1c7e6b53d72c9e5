"""Decoded keys and values as bytes, as text, and as JSON."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .consumed import Content


def as_bytes(content: Content) -> bytes:
    if content is None:
        return b""
    return content if isinstance(content, bytes) else as_text(content).encode()


def as_text(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, bytes):
        return content.decode(errors="backslashreplace")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=for_json)


def for_json(content: object) -> str:
    """Avro has bytes, dates and decimals, which JSON has not."""
    return base64.b64encode(content).decode() if isinstance(content, bytes) else str(content)
