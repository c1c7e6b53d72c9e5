"""Keys and values as texts and structures: what `--key-format` and `--value-format` name."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.connection import Connection
from ..client.errors import CommandError, Misused
from .writing import Decode

if TYPE_CHECKING:
    from .consumed import Content
    from .schema_registry import SchemaRegistry


class Form(StrEnum):
    text = "text"
    json = "json"
    hex = "hex"
    base64 = "base64"
    int32 = "int32"
    int64 = "int64"
    float = "float"
    double = "double"
    avro = "avro"
    protobuf = "protobuf"


@dataclass(frozen=True, slots=True)
class Coding:
    form: Form
    registry: str | None = None
    schema: Path | None = None
    message: str | None = None


NUMBERS = {Form.int32: ">i", Form.int64: ">q", Form.float: ">f", Form.double: ">d"}


def decoder(coding: Coding, connection: Connection) -> Decode | None:
    """A function of bytes and topic; None leaves bytes as they are. Raises Misused for schemas that are missing."""
    if coding.form is Form.text:
        return None
    if coding.form in (Form.avro, Form.protobuf):
        return _explained(coding.form, _with_schema(coding, connection))
    return _explained(coding.form, _PLAIN[coding.form])


def _explained(form: Form, decode: Callable[[bytes], Content]) -> Decode:
    def decoded(data: bytes | None, topic: str) -> Content:
        if data is None:
            return None
        try:
            return decode(data)
        except (ValueError, KeyError, IndexError, EOFError, struct.error, TypeError, UnicodeDecodeError) as error:
            raise CommandError(
                f"a record of {topic} is not {form}: {error or type(error).__name__}; try text or hex"
            ) from None

    return decoded


def _number(form: str) -> Callable[[bytes], Content]:
    return lambda data: struct.unpack(form, data)[0]


def _json(data: bytes) -> Content:
    """JSON, with or without a schema's id before it."""
    return json.loads(data[5:] if data[:1] == b"\0" else data)


_PLAIN: dict[Form, Callable[[bytes], Content]] = {
    Form.json: _json,
    Form.hex: lambda data: data.hex(),
    Form.base64: lambda data: base64.b64encode(data).decode(),
    **{form: _number(code) for form, code in NUMBERS.items()},
}


def _with_schema(coding: Coding, connection: Connection) -> Callable[[bytes], Content]:
    if (coding.registry is None) == (coding.schema is None):
        raise Misused(f"{coding.form} needs --schema-registry URL or a schema file, not both")
    if coding.form is Form.avro:
        from .avro import avro_from_file, avro_from_registry

        if coding.schema is not None:
            return avro_from_file(coding.schema)
        return avro_from_registry(registry_of(coding, connection))
    from .protobuf import protobuf_from_file, protobuf_from_registry

    if coding.schema is not None:
        return protobuf_from_file(coding.schema, coding.message)
    return protobuf_from_registry(registry_of(coding, connection))


def decoder_by_schema(registry: SchemaRegistry) -> Callable[[bytes], tuple[str, Content]]:
    """A function of a value with a schema's id before it. The id decides: the function returns the schema's kind and the
    value. It raises ValueError and so on for damaged values, CommandError for schemas that cannot be read.
    """
    from .schema_registry import framed

    by_kind: dict[str, Callable[[bytes], Content]] = {"JSON": _json}

    def decode(data: bytes) -> tuple[str, Content]:
        schema_id, _ = framed(data)
        kind = registry.schema(schema_id).kind
        if kind not in by_kind:
            by_kind[kind] = _decoder_of_kind(kind, registry)
        return kind, by_kind[kind](data)

    return decode


def _decoder_of_kind(kind: str, registry: SchemaRegistry) -> Callable[[bytes], Content]:
    if kind == "AVRO":
        from .avro import avro_from_registry

        return avro_from_registry(registry)
    if kind == "PROTOBUF":
        from .protobuf import protobuf_from_registry

        return protobuf_from_registry(registry)
    raise ValueError(f"its schema is {kind}")


def registry_of(coding: Coding, connection: Connection) -> SchemaRegistry:
    # The HTTP client of a registry takes 12 ms to load.
    from .schema_registry import SchemaRegistry

    assert coding.registry is not None
    return SchemaRegistry(coding.registry, connection.properties.get("schema.registry.basic.auth.user.info"))
