"""A request of any API and version with two items in every array, each with its own names and numbers."""

from __future__ import annotations

from itertools import count
from typing import Any

from odradek.protocol.apis import Api
from odradek.protocol.schema import ArrayOf, Scalar, WireType


def sample_request(api: Api, version: int) -> Any:
    numbers = count(1)
    made: Any = _value(api.request, version, numbers, "")
    if api.name == "Produce":
        made.acks, made.transactional_id = 1, None
        for topic in made.topic_data:
            for partition in topic.partition_data:
                partition.records = b""
    return made


def _value(kind: WireType, version: int, numbers: count[int], name: str) -> Any:
    if isinstance(kind, ArrayOf):
        return [_value(kind.element, version, numbers, name) for _ in range(2)]
    if isinstance(kind, Scalar):
        number = next(numbers)
        values = {"bool": False, "bytes": b"", "records": None, "uuid": number.to_bytes(16, "big"), "float64": 1.5}
        return values.get(kind.name, f"{name}-{number}" if kind.name == "string" else number % 100)
    fields = [field for field in kind.SCHEMA.fields if version in field.versions]
    return kind(**{field.name: _value(field.type, version, numbers, field.name) for field in fields})
