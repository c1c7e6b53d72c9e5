"""Keys and values as documents or texts. Without a format given, the schema's id before a value decides, then its bytes.

The decoders are the command line's, save for JSON, whose numbers and fields stay as they were written.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...admin.connection import Connection
from ...client.user_errors import Misused, UserError
from ...extras import install_command
from ...records.content_decoder import decoder, decoder_by_schema
from ...records.formats import Coding, Form
from ...records.schema_registry import SchemaRegistry, framed
from ..documents import parsed, parsed_with_text
from ..texts import drawn_text

if TYPE_CHECKING:
    from ...records.contents import Content
    from ...records.writing import Decode

AUTO = "auto"
FORMS = (AUTO, *(form.value for form in Form))
#: Forms of documents. The others show bytes as they are, which masks cannot change.
DOCUMENTS = (AUTO, Form.json.value, Form.avro.value, Form.protobuf.value)
#: A viewer waits no longer for a schema. A schema that could not be read is not read again before a time.
_REGISTRY_TIMEOUT_S, _RETRY_S = 2.0, 30.0
#: Failures that are kept: a topic of bytes that only look like values with schemas has many different ids.
_MOST_FAILURES = 1000
_DAMAGED = (ValueError, KeyError, IndexError, EOFError, struct.error, TypeError, RecursionError, OverflowError)
#: First characters of JSON after blanks: of objects and lists, and of other values.
_OPENING, _SCALAR = (b"{", b"["), b'"-0123456789tfn'
_BLANK, _BYTE_ORDER_MARK = b" \t\r\n", b"\xef\xbb\xbf"


class Decoded(NamedTuple):
    """`form`: what the bytes were taken for, such as `json` or `avro, schema 7`. `is_document`: masks can be applied.
    `text`: that of a document of JSON.
    """

    value: Content
    form: str
    is_document: bool = False
    text: str | None = None


class RecordDecoder:
    """Decoders are kept: some hold schemas."""

    def __init__(self, connection: Connection, registry_url: str | None) -> None:
        self._connection = connection
        self._registry_url = registry_url
        self._by_schema: Callable[[bytes], tuple[str, Content]] | None = None
        if registry_url is not None:
            user = connection.registry_user_info
            self._by_schema = decoder_by_schema(SchemaRegistry(registry_url, user, _REGISTRY_TIMEOUT_S), _unframed_json)
        self._chosen: dict[str, Decode | None] = {}
        #: Schema id, or -1 for the registry -> why it cannot be read, and until when this holds.
        self._failures: dict[int, tuple[str, float]] = {}

    def decode(
        self, data: bytes, form: str, topic: str, *, with_scalars: bool = False, has_text: bool = True
    ) -> Decoded:
        """`with_scalars`: without a format given, JSON's numbers and texts are documents, too. `has_text`: whether the text
        of a document is wanted. Raises Misused for a format that does not exist or needs a registry.
        """
        if form == AUTO:
            return self._guessed(data, with_scalars=with_scalars, has_text=has_text)
        if form == Form.json:
            try:
                value, text = parsed_with_text(data[5:] if data[:1] == b"\0" else data)
                return Decoded(value, form, is_document=True, text=text)
            except ValueError as error:
                return Decoded(f"(a record of {topic} is not json: {error}; try text or hex)", form)
        try:
            decode = self._decoder(form)
            is_document = form in DOCUMENTS
            return Decoded(text_or_hex(data) if decode is None else decode(data, topic), form, is_document)
        except Misused:
            raise
        except UserError as error:
            return Decoded(f"({error})", form)

    def _decoder(self, form: str) -> Decode | None:
        if form not in FORMS:
            raise Misused(f"unknown format {form!r}; formats: {', '.join(FORMS)}")
        if form not in self._chosen:
            if form in ("avro", "protobuf") and self._registry_url is None:
                raise Misused(f"{form} needs the schema registry: start the console with --schema-registry URL")
            self._chosen[form] = decoder(Coding(Form(form), self._registry_url), self._connection)
        return self._chosen[form]

    def _guessed(self, data: bytes, *, with_scalars: bool, has_text: bool) -> Decoded:
        note = ""
        if self._by_schema is not None and len(data) > 5 and data[0] == 0:
            found, note = self._with_schema(data, self._by_schema)
            if found is not None:
                return found
        begin = data[:64].removeprefix(_BYTE_ORDER_MARK).lstrip(_BLANK)[:1]
        if begin in _OPENING or (with_scalars and (not begin or begin in _SCALAR)):
            try:
                value, written = parsed_with_text(data) if has_text else (parsed(data), None)
                return Decoded(value, "json", is_document=True, text=written)
            except ValueError:
                pass
        text = drawn_text(data)
        return Decoded(data.hex(" ", -2), f"hex{note}") if text is None else Decoded(text, "text")

    def _with_schema(self, data: bytes, decode: Callable[[bytes], tuple[str, Content]]) -> tuple[Decoded | None, str]:
        """The value, or why there is none."""
        schema_id, _ = framed(data)
        now = time.monotonic()
        for known in (-1, schema_id):
            reason, until = self._failures.get(known, ("", 0.0))
            if now < until:
                return None, reason
        try:
            kind, value = decode(data)
            return Decoded(value, f"{kind.lower()}, schema {schema_id}", is_document=True), ""
        except _DAMAGED as error:
            return None, f", not of schema {schema_id}: {error or type(error).__name__}"[:200]
        except ImportError:
            reason, key = f", schema {schema_id} needs {install_command('decoding')}", schema_id
        except UserError as error:
            reason = f", schema {schema_id}: {error}"[:200]
            key = schema_id if "HTTP status" in reason or isinstance(error, Misused) else -1
        if len(self._failures) >= _MOST_FAILURES:
            self._failures.clear()
        self._failures[key] = (reason, time.monotonic() + _RETRY_S)
        return None, reason


def _unframed_json(data: bytes) -> Content:
    """JSON, with or without a schema's id before it."""
    return parsed(data[5:] if data[:1] == b"\0" else data)


def text_or_hex(data: bytes) -> str:
    found = drawn_text(data)
    return data.hex(" ", -2) if found is None else found
