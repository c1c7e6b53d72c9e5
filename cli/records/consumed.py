"""Consumed records: their types, and their decoded keys and values as bytes, as text, and as JSON.

confluent-kafka's own types declare that topic, partition and offset may be None, as they may for a message with an
error; `Reader` gives out none of those.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


# ---- types

#: A key or a value after decoding: text, bytes, or a structure of JSON, Avro or Protobuf.
Content = object
Headers = Sequence[tuple[str, bytes | None]]
#: Headers as a producer takes them.
ProducedHeaders = list[tuple[str, str | bytes | None]]


class ConsumedRecord(Protocol):
    def topic(self) -> str: ...

    def partition(self) -> int: ...

    def offset(self) -> int: ...

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def headers(self) -> Headers | None: ...

    def timestamp(self) -> tuple[int, int]: ...


class PolledMessage(ConsumedRecord, Protocol):
    """A record, or the end of a partition, which has a place but no contents."""

    def error(self) -> KafkaError | None: ...


# ---- keys and values


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
