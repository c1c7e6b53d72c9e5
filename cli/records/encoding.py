"""Texts as the bytes of keys and values: what `--key-format` and `--value-format` of `produce` name."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..client.connection import Connection
from ..client.errors import CommandError, Misused
from .decoding import NUMBERS, Coding, Form, registry_of

if TYPE_CHECKING:
    from fastavro.types import Schema as AvroSchema
    from google.protobuf.descriptor import Descriptor


#: Makes the bytes of a key or value of its text.
Encode = Callable[[bytes], bytes]


def encoder(coding: Coding, connection: Connection, subject: str) -> Encode | None:
    """None leaves bytes as they are. `subject`: where a registry has the schema. Raises Misused when a schema is missing."""
    if coding.form is Form.text:
        return None
    if coding.form in (Form.avro, Form.protobuf):
        return _explained(coding.form, _with_schema(coding, connection, subject))
    return _explained(coding.form, _PLAIN[coding.form])


def _explained(form: Form, encode: Encode) -> Encode:
    def encoded(text: bytes) -> bytes:
        try:
            return encode(text)
        except (ValueError, KeyError, TypeError, AttributeError, struct.error, OverflowError) as error:
            shown = text[:60].decode(errors="backslashreplace")
            raise CommandError(f"{shown!r} is not {form}: {error or type(error).__name__}") from None

    return encoded


def _json(text: bytes) -> bytes:
    json.loads(text)
    return text


def _number(form: Form) -> Encode:
    kind = int if form in (Form.int32, Form.int64) else float
    return lambda text: struct.pack(NUMBERS[form], kind(text))


_PLAIN: dict[Form, Encode] = {
    Form.json: _json,
    Form.hex: lambda text: bytes.fromhex(text.decode()),
    Form.base64: lambda text: base64.b64decode(text, validate=True),
    **{form: _number(form) for form in NUMBERS},
}


def _with_schema(coding: Coding, connection: Connection, subject: str) -> Encode:
    if (coding.registry is None) == (coding.schema is None):
        raise Misused(f"{coding.form} needs --schema-registry URL or a schema file, not both")
    if coding.schema is not None:
        return _of_file(coding)
    registered = registry_of(coding, connection).latest(subject)
    head = struct.pack(">bI", 0, registered.id)
    if coding.form is Form.avro:
        from .avro import parsed_schema

        if registered.schema.kind != "AVRO":
            raise Misused(f"the registry's schema of {subject} is {registered.schema.kind}, not AVRO")
        write = _avro(parsed_schema(registered.schema))
        return lambda text: head + write(text)
    from .protobuf import index_path, message_of_schema

    message = message_of_schema(registered.schema, coding.message)
    head += index_path(message)
    made = _protobuf(message)
    return lambda text: head + made(text)


def _of_file(coding: Coding) -> Encode:
    assert coding.schema is not None
    if coding.form is Form.avro:
        from .avro import schema_of_file

        return _avro(schema_of_file(coding.schema))
    from .protobuf import message_of_file

    return _protobuf(message_of_file(coding.schema, coding.message))


def _avro(schema: AvroSchema) -> Encode:
    import fastavro

    def write(text: bytes) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, json.loads(text))
        return out.getvalue()

    return write


def _protobuf(message: Descriptor) -> Encode:
    from google.protobuf import json_format, message_factory

    kind = message_factory.GetMessageClass(message)

    def write(text: bytes) -> bytes:
        try:
            return bytes(json_format.Parse(text, kind()).SerializeToString())
        except json_format.ParseError as error:
            raise ValueError(str(error)) from None

    return write
