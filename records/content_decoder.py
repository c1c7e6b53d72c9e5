"""Decoders of keys and values by format, for `consume`."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..admin.connection import Connection
from ..client.user_errors import Misused, UserError
from .formats import NUMBERS, Coding, Form, registry_of
from .json_parsing import loaded
from .writing import Decode

if TYPE_CHECKING:
    from .contents import Content
    from .schema_registry import SchemaRegistry

#: Errors of the libraries of the formats for bytes of another format.
_DAMAGED = (
    ValueError, KeyError, IndexError, EOFError, struct.error, TypeError, AttributeError, ArithmeticError, RecursionError,
    MemoryError,
)  # fmt: skip


def decoder(coding: Coding, connection: Connection) -> Decode | None:
    """A function of bytes and topic; None leaves bytes as they are. Raises Misused for schemas that are missing."""
    if coding.form is Form.text:
        return None
    if coding.form in (Form.avro, Form.protobuf):
        return _explained_decode(coding.form, _decode_with_schema(coding, connection))
    return _explained_decode(coding.form, _DECODERS[coding.form])


class UndecodableContent(UserError):
    """A key or a value that is not of the format."""


def _explained_decode(form: Form, decode: Callable[[bytes], Content]) -> Decode:
    def decoded(data: bytes | None, topic: str) -> Content:
        if data is None:
            return None
        try:
            return decode(data)
        except _DAMAGED as error:
            raise UndecodableContent(
                f"a record of {topic} is not {form}: {error or type(error).__name__}; try text or hex"
            ) from None

    return decoded


def _decode_number(form: str) -> Callable[[bytes], Content]:
    return lambda data: struct.unpack(form, data)[0]


def _decode_json(data: bytes) -> Content:
    """JSON, with or without a schema's id before it."""
    return loaded((data[5:] if data[:1] == b"\0" else data).decode())


_DECODERS: dict[Form, Callable[[bytes], Content]] = {
    Form.json: _decode_json,
    Form.hex: lambda data: data.hex(),
    Form.base64: lambda data: base64.b64encode(data).decode(),
    **{form: _decode_number(code) for form, code in NUMBERS.items()},
}


def _decode_with_schema(coding: Coding, connection: Connection) -> Callable[[bytes], Content]:
    if (coding.registry is None) == (coding.schema is None):
        raise Misused(f"{coding.form} needs --schema-registry URL or a schema file, not both")
    if coding.form is Form.avro:
        from .avro_decoding import avro_from_file, avro_from_registry

        if coding.schema is not None:
            return avro_from_file(coding.schema)
        return avro_from_registry(registry_of(coding, connection))
    from .protobuf_decoding import protobuf_from_file, protobuf_from_registry

    if coding.schema is not None:
        return protobuf_from_file(coding.schema, coding.message)
    return protobuf_from_registry(registry_of(coding, connection))


def decoder_by_schema(
    registry: SchemaRegistry, decode_json: Callable[[bytes], Content] = _decode_json
) -> Callable[[bytes], tuple[str, Content]]:
    """A function of a value with a schema's id before it. The id decides: the function returns the schema's kind and the
    value. It raises ValueError and so on for damaged values, UserError for schemas that cannot be read.
    """
    from .schema_registry import framed

    by_kind: dict[str, Callable[[bytes], Content]] = {"JSON": decode_json}

    def decode(data: bytes) -> tuple[str, Content]:
        schema_id, _ = framed(data)
        kind = registry.schema(schema_id).kind
        if kind not in by_kind:
            by_kind[kind] = _decoder_of_kind(kind, registry)
        return kind, by_kind[kind](data)

    return decode


def _decoder_of_kind(kind: str, registry: SchemaRegistry) -> Callable[[bytes], Content]:
    if kind == "AVRO":
        from .avro_decoding import avro_from_registry

        return avro_from_registry(registry)
    if kind == "PROTOBUF":
        from .protobuf_decoding import protobuf_from_registry

        return protobuf_from_registry(registry)
    raise ValueError(f"its schema is {kind}")
