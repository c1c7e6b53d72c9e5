"""Encoders of keys and values by format, for `produce`."""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..admin.connection import Connection
from ..client.user_errors import Misused, UserError
from .formats import NUMBERS, Coding, Form, registry_of
from .json_parsing import parsed

if TYPE_CHECKING:
    from fastavro.types import Schema as AvroSchema
    from google.protobuf.descriptor import Descriptor

    from .schema_registry import Registered

#: Makes the bytes of a key or value of its text.
Encode = Callable[[bytes], bytes]


def encoder(coding: Coding, connection: Connection, subject: str) -> Encode | None:
    """None leaves bytes as they are. `subject`: where a registry has the schema. Raises Misused when a schema is missing."""
    if coding.form is Form.text:
        return None
    if coding.form in (Form.avro, Form.protobuf):
        return _explained_encode(coding.form, _encode_with_schema(coding, connection, subject))
    return _explained_encode(coding.form, _ENCODERS[coding.form])


def _explained_encode(form: Form, encode: Encode) -> Encode:
    def encoded(text: bytes) -> bytes:
        try:
            return encode(text)
        except (ValueError, KeyError, TypeError, AttributeError, struct.error, OverflowError, RecursionError) as error:
            shown = text[:60].decode(errors="backslashreplace")
            raise UserError(f"{shown!r} is not {form}: {error or type(error).__name__}") from None

    return encoded


def _encode_json(text: bytes) -> bytes:
    parsed(text.decode())
    return text


def _encode_number(form: Form) -> Encode:
    kind = int if form in (Form.int32, Form.int64) else float
    return lambda text: struct.pack(NUMBERS[form], kind(text))


_ENCODERS: dict[Form, Encode] = {
    Form.json: _encode_json,
    Form.hex: lambda text: bytes.fromhex(text.decode()),
    Form.base64: lambda text: base64.b64decode(text, validate=True),
    **{form: _encode_number(form) for form in NUMBERS},
}


def _encode_with_schema(coding: Coding, connection: Connection, subject: str) -> Encode:
    if (coding.registry is None) == (coding.schema is None):
        raise Misused(f"{coding.form} needs --schema-registry URL or a schema file, not both")
    if coding.schema is not None:
        return _encode_by_file(coding)
    registered = registry_of(coding, connection).latest(subject)
    if coding.form is Form.avro and registered.schema.kind != "AVRO":
        raise Misused(f"the registry's schema of {subject} is {registered.schema.kind}, not AVRO")
    return encode_registered(coding.form, registered, coding.message)


def encode_registered(form: Form, registered: Registered, message: str | None = None) -> Encode:
    """Makes the bytes of JSON text by a schema of a registry, after its id. `form`: avro or protobuf.

    Raises ValueError and Misused for a schema of another kind; what it returns raises ValueError, TypeError and others for a
    text that does not fit.
    """
    head = struct.pack(">bI", 0, registered.id)
    if form is Form.avro:
        from .avro_decoding import parsed_schema

        write = _encode_avro(parsed_schema(registered.schema))
        return lambda text: head + write(text)
    from .protobuf_decoding import index_path, message_of_schema

    found = message_of_schema(registered.schema, message)
    head += index_path(found)
    made = _encode_protobuf(found)
    return lambda text: head + made(text)


def _encode_by_file(coding: Coding) -> Encode:
    assert coding.schema is not None
    if coding.form is Form.avro:
        from .avro_decoding import schema_of_file

        return _encode_avro(schema_of_file(coding.schema))
    from .protobuf_decoding import message_of_file

    return _encode_protobuf(message_of_file(coding.schema, coding.message))


def _encode_avro(schema: AvroSchema) -> Encode:
    import fastavro

    from .avro_input import AvroInput
    from .avro_marked import marked

    given, written = AvroInput(schema), marked(schema)

    def write(text: bytes) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, written, given.value(text))
        return out.getvalue()

    return write


def _encode_protobuf(message: Descriptor) -> Encode:
    from google.protobuf import json_format, message_factory

    kind = message_factory.GetMessageClass(message)

    def write(text: bytes) -> bytes:
        try:
            made = json_format.Parse(text, kind())
        except json_format.ParseError as error:
            raise ValueError(str(error)) from None
        if not made.IsInitialized():  # upb may crash where it collects their names
            raise ValueError(f"a required field of {message.full_name} is missing")
        return bytes(made.SerializePartialToString())

    return write
