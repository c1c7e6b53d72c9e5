"""Consumed records: their types.

confluent-kafka's own types declare that topic, partition and offset may be None, as they may for a message with an
error; `Reader` gives out none of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

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
