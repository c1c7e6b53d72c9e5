"""Avro schemas, by Apache's `avro`: its compatibility check is the one of Avro for Java, which Confluent's registry uses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import avro.compatibility
import avro.errors
import avro.name
import avro.schema

from .errors import invalid_schema
from .schemas import Parsed, SchemaText

if TYPE_CHECKING:
    from ...protocol.json_value import JsonValue


class AvroSchema:
    """An Avro schema with the named types of its references."""

    def __init__(self, schema: SchemaText) -> None:
        names = avro.name.Names(validate_names=True)
        try:
            for inner in schema.inner.values():
                avro.schema.make_avsc_object(json.loads(inner), names)
            content = _simplified(json.loads(schema.text))
            self._schema = avro.schema.make_avsc_object(content, names)
        except (avro.errors.AvroException, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise invalid_schema(f"{schema.text[:200]!r}: {error}") from None
        self.text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        self.identity = json.dumps(content, sort_keys=True)

    def cannot_read(self, writer: Parsed) -> list[str]:
        assert isinstance(writer, AvroSchema)
        checker = avro.compatibility.ReaderWriterCompatibilityChecker()
        result = checker.get_compatibility(self._schema, writer._schema)
        if result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
            return []
        kinds = sorted(kind.value for kind in result.incompatibilities)
        return [f"{', '.join(kinds)} at {', '.join(sorted(result.locations))}: {'; '.join(sorted(result.messages))}"]

    def formatted(self, form: str) -> str:
        return self.text


def _simplified(content: JsonValue) -> JsonValue:
    """Returns a schema in which {"type": "string"} is "string", as Avro for Java writes it."""
    if isinstance(content, list):
        return [_simplified(one) for one in content]
    if not isinstance(content, dict):
        return content
    if set(content) == {"type"}:
        return _simplified(content["type"])
    found = dict(content)
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _simplified(found[key])
    fields = found.get("fields")
    if isinstance(fields, list):
        found["fields"] = [
            {**one, "type": _simplified(one["type"])} if isinstance(one, dict) and "type" in one else one
            for one in fields
        ]
    return found
