"""Schemas of Avro with names of our own in place of the logical types, and the field that each is in."""

from __future__ import annotations

from .avro_logical import AS_TEXT, IN_UNION, PATH, PREFIX, WHOLE, AvroType, logical_type
from .avro_logical_values import register


def marked(schema: AvroType, *, as_text: bool = False, is_exact: bool = False) -> AvroType:
    """A schema as fastavro has parsed it, for values as `avro_logical` has them, or for texts and numbers of JSON.
    `is_exact`: integers are marked, too, so that no other schema rounds them.
    """
    register()
    named = named_types(schema)
    walk = _Walk(as_text, is_exact)
    definitions = {name: walk.of(one, name) for name, one in named.items()}
    made = walk.of(schema, "")
    if isinstance(made, dict):
        made |= {"__fastavro_parsed": True, "__named_schemas": definitions}
    return made


def named_types(schema: AvroType) -> dict[str, AvroType]:
    """The records, enums and fixed types of a parsed schema, and those of schemas that it refers to."""
    if isinstance(schema, list):
        return {name: one for branch in schema for name, one in named_types(branch).items()}
    return dict(schema.get("__named_schemas", {})) if isinstance(schema, dict) else {}


class _Walk:
    def __init__(self, as_text: bool, is_exact: bool) -> None:
        self._as_text = as_text
        self._is_exact = is_exact

    def of(self, schema: AvroType, path: str, in_union: bool = False) -> AvroType:
        if isinstance(schema, list):
            is_union = len([one for one in schema if one != "null"]) > 1
            return [self.of(one, path, is_union) for one in schema]
        if self._is_exact and schema in ("int", "long"):
            return {"type": schema, "logicalType": PREFIX + WHOLE, PATH: path or "the value"}
        if not isinstance(schema, dict):
            return schema
        made = {name: one for name, one in schema.items() if not name.startswith("__")}
        if "fields" in made:
            made["fields"] = [
                one | {"type": self.of(one["type"], _joined(path, one["name"]))} for one in made["fields"]
            ]
        if "items" in made:
            made["items"] = self.of(made["items"], f"{path}[]")
        if "values" in made:
            made["values"] = self.of(made["values"], f"{path}{{}}")
        found = logical_type(made)
        if found is None:
            made.pop("logicalType", None)
            return made
        return made | {
            "logicalType": PREFIX + found, PATH: path or "the value", AS_TEXT: self._as_text, IN_UNION: in_union,
        }  # fmt: skip


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
