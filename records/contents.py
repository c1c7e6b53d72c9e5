"""Decoded keys and values of records as bytes, as text, and as JSON."""

from __future__ import annotations

import base64
import json
import math

from .json_parsing import is_unicode

#: A key or a value after decoding: text, bytes, or a structure of JSON, Avro or Protobuf.
Content = object


def as_bytes(content: Content) -> bytes:
    if content is None:
        return b""
    return content if isinstance(content, bytes) else as_text(content).encode(errors="backslashreplace")


def as_text(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, bytes):
        return content.decode(errors="backslashreplace")
    return content if isinstance(content, str) else json_of(content)


def json_of(content: Content) -> str:
    """JSON text. Infinite numbers, and NaN, which JSON has not, are text: "Infinity"."""
    try:
        made = json.dumps(content, ensure_ascii=False, default=for_json, allow_nan=False)
    except ValueError:
        content = _finite(content)
        made = json.dumps(content, ensure_ascii=False, default=for_json)
    # Half of a surrogate pair has no encoding, and stays an escape.
    return made if is_unicode(made) else json.dumps(content, default=for_json)


def _finite(content: Content) -> Content:
    if isinstance(content, float) and not math.isfinite(content):
        return json.dumps(content)
    if isinstance(content, dict):
        return {_finite(name): _finite(one) for name, one in content.items()}
    return [_finite(one) for one in content] if isinstance(content, list | tuple) else content


def for_json(content: object) -> str:
    """Avro has bytes, dates and decimals, which JSON has not."""
    return base64.b64encode(content).decode() if isinstance(content, bytes) else str(content)
