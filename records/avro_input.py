"""Values of JSON as values of an Avro schema, for `produce`. They have the form in which `consume` shows them.

Bytes are base64; times and uuids are text, or the number that Avro has; decimals are text or numbers; numbers that JSON has
not are text ("NaN"). A value of a union is `{"TYPE": value}`, as in Avro's own JSON, or one of its first type that takes it:
of a record only with fields that it has, and of `double` before `float`, which would round it.
"""

from __future__ import annotations

import json
from decimal import Decimal

from .avro_logical import AvroType, AvroValue, logical_type
from .avro_logical_input import of_logical
from .avro_marked import named_types
from .avro_plain_input import PLAIN, check, name_of, of_plain, shown
from .json_parsing import refuse_constant


class AvroInput:
    """Makes what fastavro writes, with the schema that `marked` returns, of a JSON text. Raises ValueError."""

    def __init__(self, schema: AvroType) -> None:
        self._schema = schema
        self._named = named_types(schema)

    def value(self, text: bytes) -> AvroValue:
        return self._of(self._schema, json.loads(text, parse_float=Decimal, parse_constant=refuse_constant), "")

    def _of(self, schema: AvroType, value: AvroValue, path: str) -> AvroValue:
        if isinstance(schema, list):
            return self._of_union(schema, value, path)
        if isinstance(schema, str) and schema in self._named:
            return self._of(self._named[schema], value, path)
        logical = logical_type(schema)
        if logical is not None:
            return of_logical(schema, logical, value, path)
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            return self._of(kind, value, path)
        if kind in ("record", "error"):
            check(isinstance(value, dict), value, kind, path)
            return {one["name"]: self._of_field(one, value, f"{path}.{one['name']}") for one in schema["fields"]}
        if kind == "array":
            check(isinstance(value, list), value, kind, path)
            return [self._of(schema["items"], one, f"{path}[]") for one in value]
        if kind == "map":
            check(isinstance(value, dict), value, kind, path)
            return {name: self._of(schema["values"], one, f"{path}{{}}") for name, one in value.items()}
        return of_plain(schema, kind, value, path)

    def _of_field(self, field: AvroType, record: AvroValue, path: str) -> AvroValue:
        if field["name"] in record:
            return self._of(field["type"], record[field["name"]], path)
        if "default" in field:
            return self.default(field["type"], field["default"], path)
        is_optional = isinstance(field["type"], list) and "null" in field["type"]
        if not is_optional:
            raise ValueError(f"{path.lstrip('.')} is missing, and has no default")
        return None

    def default(self, schema: AvroType, value: AvroValue, path: str) -> AvroValue:
        """A value as schemas have it: bytes are the characters up to U+00FF, and unions have no names of types."""
        if isinstance(schema, list):
            return self._default_of_union(schema, value, path)
        if isinstance(schema, str) and schema in self._named:
            return self.default(self._named[schema], value, path)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in ("bytes", "fixed"):
            check(isinstance(value, str), value, kind, path)
            try:
                return str(value).encode("latin-1")
            except UnicodeEncodeError:
                raise ValueError(f"{path.lstrip('.')} has the default {shown(value)}, not {kind}") from None
        if kind in ("record", "error"):
            check(isinstance(value, dict), value, kind, path)
            fields = [
                one | ({"default": value[one["name"]]} if one["name"] in value else {}) for one in schema["fields"]
            ]
            return {one["name"]: self._of_field(one, {}, f"{path}.{one['name']}") for one in fields}
        if kind == "array":
            check(isinstance(value, list), value, kind, path)
            return [self.default(schema["items"], one, f"{path}[]") for one in value]
        if kind == "map":
            check(isinstance(value, dict), value, kind, path)
            return {name: self.default(schema["values"], one, f"{path}{{}}") for name, one in value.items()}
        return self._of(kind if isinstance(kind, str) and kind in PLAIN else schema, value, path)

    def _default_of_union(self, schema: AvroType, value: AvroValue, path: str) -> AvroValue:
        for one in schema:
            try:
                return (name_of(one), self.default(one, value, path)) if value is not None else None
            except ValueError as error:
                reason = error
        raise reason

    def _of_union(self, schema: AvroType, value: AvroValue, path: str) -> AvroValue:
        if value is None and any(name_of(one) == "null" for one in schema):
            return None
        names = {name_of(one): one for one in schema}
        reason: ValueError | None = None
        if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in names:
            ((name, inner),) = value.items()
            try:
                return name, self._of(names[name], inner, path)
            except ValueError as error:
                reason = error  # a map or a record may have a field of this name
        for one in self._likely_first(schema):
            if not self._has_fields(one, value):
                continue
            try:
                return name_of(one), self._of(one, value, path)
            except ValueError as error:
                reason = reason or error
        if reason is not None and len([one for one in schema if one != "null"]) == 1:
            raise reason
        raise ValueError(f"{path.lstrip('.')} is {shown(value)}, which is of no type of the union")

    @staticmethod
    def _likely_first(schema: AvroType) -> list[AvroType]:
        """The types of a union without null, those that lose nothing of a number first."""
        return sorted((one for one in schema if name_of(one) != "null"), key=lambda one: name_of(one) == "float")

    def _has_fields(self, branch: AvroType, value: AvroValue) -> bool:
        """Returns whether a type of a union is no record, or one that has all fields of a value."""
        found = self._named.get(branch, branch) if isinstance(branch, str) else branch
        if not isinstance(found, dict) or found["type"] not in ("record", "error") or not isinstance(value, dict):
            return True
        return value.keys() <= {one["name"] for one in found["fields"]}
