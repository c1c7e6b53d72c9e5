"""Random messages of any of Odradek's classes and versions, with every field that the version allows."""

from __future__ import annotations

import random
from typing import Any

from odradek.protocol.schema import ArrayOf, Field, Message, Scalar, WireType

_MOST_ELEMENTS = 3
_MOST_DEPTH_WITH_ARRAYS = 5
_TEXTS = ("", "a", "topic-1", "Grüße", "日本語", "😀 x", "y" * 127, "z" * 300)
_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def random_message(rng: random.Random, cls: type[Message], version: int, flexible: bool | None = None) -> Any:
    """Returns a message with random values in every field of `version`, and defaults in all others."""
    return _message(rng, cls, version, version in cls.SCHEMA.flexible if flexible is None else flexible, 0)


def _message(rng: random.Random, cls: type[Message], version: int, flexible: bool, depth: int) -> Any:
    values = {
        field.name: _field(rng, field, version, flexible, depth)
        for field in cls.SCHEMA.fields
        if version in field.versions and not (_is_tagged(field, version) and rng.random() < 0.4)
    }
    made = cls(**values)
    if flexible and rng.random() < 0.15:
        made.unknown_tags = {100 + rng.randrange(40_000): random_bytes(rng) for _ in range(rng.randint(1, 2))}
    return made


def _is_tagged(field: Field, version: int) -> bool:
    return field.tag is not None and version in field.tagged


def _field(rng: random.Random, field: Field, version: int, flexible: bool, depth: int) -> Any:
    if version in field.nullable and rng.random() < 0.25:
        return None
    return _value(rng, field.type, version, flexible, depth + 1)


def _value(rng: random.Random, kind: WireType, version: int, flexible: bool, depth: int) -> Any:
    if isinstance(kind, ArrayOf):
        count = 0 if depth > _MOST_DEPTH_WITH_ARRAYS else rng.randint(0, _MOST_ELEMENTS)
        return [_value(rng, kind.element, version, flexible, depth + 1) for _ in range(count)]
    if isinstance(kind, Scalar):
        return _scalar(rng, kind.name)
    return _message(rng, kind, version, flexible, depth)


def _scalar(rng: random.Random, name: str) -> Any:
    if name in _INTEGERS:
        bits = _INTEGERS[name]
        high = (1 << bits - 1) - 1
        return rng.choice((-high - 1, high, -1, 0, rng.randint(-high - 1, high), rng.randint(0, 100)))
    return {
        "bool": lambda: rng.random() < 0.5,
        "uint16": lambda: rng.choice((0, 65535, rng.randrange(65536))),
        "uint32": lambda: rng.choice((0, 0xFFFFFFFF, rng.randrange(1 << 32))),
        "float64": lambda: rng.choice((0.0, -1.5, float("inf"), rng.gauss(0, 1e9))),
        "string": lambda: rng.choice(_TEXTS),
        "bytes": lambda: random_bytes(rng),
        "records": lambda: random_bytes(rng),
        "uuid": lambda: rng.choice((bytes(16), rng.randbytes(16))),
    }[name]()


def random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((0, 1, 7, 20, 200)))
