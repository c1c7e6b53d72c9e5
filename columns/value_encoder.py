"""The encoder of a typed column: each row as the bytes of a record's key or value, in JSON, Avro or Protobuf.

The rows become JSON texts, which the encoders of `odradek produce` take: these check each value against the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from ..client.user_errors import UserError
from ..records.content_encoder import encode_registered
from ..records.formats import Form
from ..records.schema_registry import Registered, Schema
from .avro_fit import check_avro
from .json_rows import check_json_type, json_rows
from .json_schema_fit import check_json_schema
from .misfit import Misfit
from .protobuf_fit import check_protobuf
from .protobuf_well_known import Descriptor

if TYPE_CHECKING:
    from ..records.content_encoder import Encode

#: The kinds of schemas of a registry, by the formats.
_KINDS = {"json": "JSON", "avro": "AVRO", "protobuf": "PROTOBUF"}
#: Schemas of a process: a compilation of Protobuf takes a tenth of a second.
_MOST_KEPT = 16


@dataclass(frozen=True, slots=True)
class ValueEncoder:
    """`name`: of the column, for errors. `registered`: the schema, whose id the bytes begin with; JSON can be without.

    `message`: of Protobuf, the first one of the schema otherwise. It can be pickled.
    """

    form: str
    name: str
    registered: Registered | None = None
    message: str | None = None

    def check(self, kind: pa.DataType) -> None:
        """Raises Misfit for a column of a type that the format, or the schema, has no form for."""
        check_json_type(kind, self.name)
        if self.registered is None:
            return
        schema = self.registered.schema
        if schema.kind != _KINDS[self.form]:
            raise Misfit(f"the registry's schema of the column {self.name} is {schema.kind}, not {_KINDS[self.form]}")
        try:
            _CHECKS[self.form](kind, schema, self)
        except Misfit:
            raise
        except (UserError, ValueError, LookupError) as error:
            raise Misfit(f"the registry's schema of the column {self.name} cannot be used: {error}") from None

    def encode(self, values: pa.Array) -> pa.Array:
        """Returns the bytes of each row, null for a null row. Raises Misfit for a value that does not fit."""
        rows = json_rows(values, self.name, is_for_schema=self.form != "json")
        if self.registered is None:
            return pa.array(rows, pa.binary())
        if self.form == "json":
            head = b"\0" + self.registered.id.to_bytes(4, "big")
            return pa.array([None if row is None else head + row for row in rows], pa.binary())
        encode = self._encode_of_schema()
        made = []
        for row in rows:
            try:
                made.append(None if row is None else encode(row))
            except Exception as error:  # the libraries raise what they meet: KeyError, EncodeError and so on
                reason = str(error).partition("\n")[0] or type(error).__name__
                raise Misfit(f"a row of the column {self.name} does not fit its schema: {reason}") from None
        return pa.array(made, pa.binary())

    def _encode_of_schema(self) -> Encode:
        assert self.registered is not None
        schema = self.registered.schema
        return _kept_encode(self.form, self.registered.id, schema.text, tuple(schema.references.items()), self.message)


@lru_cache(_MOST_KEPT)
def _kept_encode(
    form: str, schema_id: int, text: str, references: tuple[tuple[str, str], ...], message: str | None
) -> Encode:
    registered = Registered(schema_id, Schema(_KINDS[form], text, dict(references)))
    return encode_registered(Form(form), registered, message)


def _check_json(kind: pa.DataType, schema: Schema, encoder: ValueEncoder) -> None:
    check_json_schema(kind, schema.text, encoder.name)


def _check_avro(kind: pa.DataType, schema: Schema, encoder: ValueEncoder) -> None:
    from ..records.avro_decoding import parsed_schema

    check_avro(kind, parsed_schema(schema), encoder.name)


def _check_protobuf(kind: pa.DataType, schema: Schema, encoder: ValueEncoder) -> None:
    check_protobuf(kind, _kept_message(schema.text, tuple(schema.references.items()), encoder.message), encoder.name)


@lru_cache(_MOST_KEPT)
def _kept_message(text: str, references: tuple[tuple[str, str], ...], message: str | None) -> Descriptor:
    from ..records.protobuf_decoding import message_of_schema

    return message_of_schema(Schema(_KINDS["protobuf"], text, dict(references)), message)


_CHECKS: dict[str, Callable[[pa.DataType, Schema, ValueEncoder], None]] = {
    "json": _check_json, "avro": _check_avro, "protobuf": _check_protobuf,
}  # fmt: skip
