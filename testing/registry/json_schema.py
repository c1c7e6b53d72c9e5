"""JSON Schemas, checked by `jsonschema` against the draft that they name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
from jsonschema.validators import validator_for

from .errors import invalid_schema
from .schemas import Parsed, SchemaText

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject, JsonValue


# Whether values of one JSON Schema fit another, by the rules of Confluent's registry as far as this file has them.
#
# Compared: types, required and other properties in open and closed objects, additionalProperties, items, enum, const,
# bounds and lengths, oneOf, anyOf, allOf, and `$ref`. A change of any other keyword counts as a difference.


#: Words for people, which restrict nothing.
_ANNOTATIONS = frozenset({"$schema", "$id", "id", "title", "description", "default", "examples", "$comment"}).union(
    {"deprecated", "readOnly", "writeOnly", "definitions", "$defs"}
)
#: A reader may have a smaller one, or none; and a larger one, or none.
_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_COMPARED = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "oneOf"}
).union({"anyOf", "allOf", "$ref"}, _LOWER_BOUNDS, _UPPER_BOUNDS)
#: Levels of schemas within schemas that are compared; recursive ones end before by what was seen.
_MOST_LEVELS = 64
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def differences(
    reader: JsonValue,
    writer: JsonValue,
    reader_files: JsonObject | None = None,
    writer_files: JsonObject | None = None,
) -> list[str]:
    """Returns why not every value of `writer` need be one of `reader`. `..._files`: schemas that `$ref` names, by name."""
    comparison = _Comparison(_Resolver(reader, reader_files or {}), _Resolver(writer, writer_files or {}))
    comparison.compare(reader, writer, "#", 0)
    return comparison.found


class _Resolver:
    def __init__(self, root: JsonValue, files: JsonObject) -> None:
        self._root, self._files = root, files

    def resolved(self, schema: JsonValue) -> JsonValue:
        """Returns the schema that `$ref` names; the schema itself where there is none, or it leads nowhere."""
        for _ in range(_MOST_LEVELS):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str):
                return schema
            file, _, pointer = reference.partition("#")
            found = self._files.get(file) if file else self._root
            for step in [one for one in pointer.split("/") if one]:
                found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
            if found is None:
                return schema
            schema = found
        return schema


class _Comparison:
    def __init__(self, reader: _Resolver, writer: _Resolver) -> None:
        self._reader, self._writer = reader, writer
        self._seen: set[tuple[int, int]] = set()
        self.found: list[str] = []

    def compare(self, reader: JsonValue, writer: JsonValue, path: str, level: int) -> None:
        reader, writer = self._reader.resolved(reader), self._writer.resolved(writer)
        if (id(reader), id(writer)) in self._seen:
            return
        self._seen.add((id(reader), id(writer)))
        if level > _MOST_LEVELS:
            self._add("TOO_DEEP", path)
            return
        now, before = _as_object(reader), _as_object(writer)
        if now is None or before is None:  # `false`: fits nothing
            if before is not None:
                self._add("TYPE_CHANGED", path)
            return
        self._compare_objects(now, before, path, level)

    def _compare_objects(self, reader: JsonObject, writer: JsonObject, path: str, level: int) -> None:
        self._compare_type(reader, writer, path)
        self._compare_values(reader, writer, path)
        self._compare_bounds(reader, writer, path)
        self._compare_properties(reader, writer, path, level)
        if "items" in reader or "items" in writer:
            self._compare_items(reader.get("items", True), writer.get("items", True), path, level)
        self._compare_sums(reader, writer, path, level)
        for key in sorted((set(reader) | set(writer)) - _ANNOTATIONS - _COMPARED):
            if key in reader and reader[key] != writer.get(key):
                self._add(f"{key.upper()}_CHANGED", path)
        if reader.get("$ref") != writer.get("$ref"):  # one that leads nowhere
            self._add("REFERENCE_CHANGED", path)

    def _compare_type(self, reader: JsonObject, writer: JsonObject, path: str) -> None:
        before, now = _types(writer), _types(reader)
        if not before <= now:
            self._add("TYPE_NARROWED" if now < before else "TYPE_CHANGED", path)

    def _compare_values(self, reader: JsonObject, writer: JsonObject, path: str) -> None:
        now, before = _values(reader), _values(writer)
        if now is not None and (before is None or any(one not in now for one in before)):
            self._add("ENUM_ARRAY_NARROWED", path)

    def _compare_bounds(self, reader: JsonObject, writer: JsonObject, path: str) -> None:
        for key in _LOWER_BOUNDS:
            now, before = _bound(reader, key), _bound(writer, key)
            if now is not None and (before is None or before < now):
                self._add(f"{key.upper()}_INCREASED", path)
        for key in _UPPER_BOUNDS:
            now, before = _bound(reader, key), _bound(writer, key)
            if now is not None and (before is None or before > now):
                self._add(f"{key.upper()}_DECREASED", path)

    def _compare_properties(self, reader: JsonObject, writer: JsonObject, path: str, level: int) -> None:
        now, before = _properties(reader), _properties(writer)
        now_more, before_more = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        if now or before or now_more is not True or before_more is not True:
            for name in sorted(set(now) | set(before)):
                where = f"{path}/properties/{name}"
                if name in now and name in before:
                    self.compare(now[name], before[name], where, level + 1)
                elif name in now and before_more is not False:
                    if before_more is True and now[name] not in (True, {}):
                        self._add("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", where)
                    elif before_more is not True:
                        self.compare(now[name], before_more, where, level + 1)
                elif name in before and now_more is False:
                    self._add("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", where)
                elif name in before and now_more is not True:
                    self.compare(now_more, before[name], where, level + 1)
            if now_more is not True:
                if before_more is True:
                    self._add("ADDITIONAL_PROPERTIES_REMOVED", path)
                elif before_more is not False:
                    self.compare(now_more, before_more, f"{path}/additionalProperties", level + 1)
        for name in _required(reader):
            own = now.get(name)
            has_default = isinstance(own, dict) and "default" in own
            if name not in _required(writer) and not has_default:
                self._add("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}")

    def _compare_items(self, now: JsonValue, before: JsonValue, path: str, level: int) -> None:
        if isinstance(now, list) or isinstance(before, list):
            if now != before:
                self._add("ITEMS_CHANGED", f"{path}/items")
            return
        self.compare(now, before, f"{path}/items", level + 1)

    def _compare_sums(self, reader: JsonObject, writer: JsonObject, path: str, level: int) -> None:
        for key in ("oneOf", "anyOf", "allOf"):
            now, before = reader.get(key), writer.get(key)
            if not isinstance(now, list) or now == before:
                continue
            if not isinstance(before, list):
                self._add("COMBINED_TYPE_CHANGED", f"{path}/{key}")
            elif key == "allOf":
                for index, one in enumerate(now):  # each part of the reader must follow from a part of the writer
                    if not any(self._fits(one, other, level) for other in before):
                        self._add("PRODUCT_TYPE_EXTENDED", f"{path}/{key}/{index}")
            else:
                for index, one in enumerate(before):
                    if not any(self._fits(other, one, level) for other in now):
                        self._add("SUM_TYPE_NARROWED", f"{path}/{key}/{index}")

    def _fits(self, reader: JsonValue, writer: JsonValue, level: int) -> bool:
        inner = _Comparison(self._reader, self._writer)
        inner._seen = set(self._seen)
        inner.compare(reader, writer, "#", level + 1)
        return not inner.found

    def _add(self, kind: str, path: str) -> None:
        self.found.append(f'{{errorType:"{kind}", description:"at path \'{path}\' the new schema takes fewer values"}}')


def _as_object(schema: JsonValue) -> JsonObject | None:
    if schema is False:
        return None
    return schema if isinstance(schema, dict) else {}


def _values(schema: JsonObject) -> list[JsonValue] | None:
    """Returns the values of `enum` or `const`; None where there is neither."""
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else [schema["const"]] if "const" in schema else None


def _bound(schema: JsonObject, key: str) -> float | None:
    bound = schema.get(key)
    return bound if isinstance(bound, int | float) else None


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _required(schema: JsonObject) -> list[str]:
    found = schema.get("required")
    return [str(name) for name in found] if isinstance(found, list) else []


def _types(schema: JsonObject) -> set[str]:
    given = schema.get("type")
    found = {given} if isinstance(given, str) else {str(one) for one in given} if isinstance(given, list) else {*_TYPES}
    return found | {"integer"} if "number" in found else found


class JsonSchema:
    """A JSON Schema. Its references, texts by the name that `$ref` has, count in comparisons."""

    def __init__(self, schema: SchemaText) -> None:
        try:
            self.content: JsonValue = json.loads(schema.text)
            self._inner = {name: json.loads(text) for name, text in schema.inner.items()}
            if not isinstance(self.content, dict | bool):
                raise ValueError("a JSON Schema must be an object, true or false")
            validator_for(self.content, jsonschema.Draft7Validator).check_schema(self.content)
        except (ValueError, RecursionError) as error:
            raise invalid_schema(error) from None
        except jsonschema.SchemaError as error:
            raise invalid_schema(error.message) from None
        self.text = json.dumps(self.content, separators=(",", ":"), ensure_ascii=False)
        self.identity = json.dumps([self.content, self._inner], sort_keys=True)

    def cannot_read(self, writer: Parsed) -> list[str]:
        assert isinstance(writer, JsonSchema)
        return differences(self.content, writer.content, self._inner, writer._inner)

    def formatted(self, form: str) -> str:
        return self.text
