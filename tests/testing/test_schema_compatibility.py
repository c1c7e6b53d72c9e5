"""Tables of compatible and incompatible schemas. The last two columns: later reads earlier, earlier reads later."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.testing.registry.errors import RegistryError
from odradek.testing.registry.levels import why_incompatible
from odradek.testing.registry.schemas import AVRO, JSON, PROTOBUF, Parsed, SchemaText
from odradek.testing.registry.store import Store, parse


def _avro(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "int"}
B_DEFAULT = {"name": "b", "type": "int", "default": 0}
INT, TEXT = {"type": "integer"}, {"type": "string"}


def _object(closed: bool = False, required: tuple[str, ...] = (), **properties: Any) -> Any:
    found: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    return {**found, "additionalProperties": False} if closed else found


def _message(fields: str, more: str = "") -> str:
    return f'syntax = "proto3"; package shop; message M {{ {fields} }} {more}'


#: Name: the kind, the earlier schema, the later schema, whether the later reads the earlier, and the earlier the later.
CASES: dict[str, tuple[str, Any, Any, bool, bool]] = {
    "avro: field added": (AVRO, _avro(A), _avro(A, B), False, True),
    "avro: field with default added": (AVRO, _avro(A), _avro(A, B_DEFAULT), True, True),
    "avro: int to long": (AVRO, '"int"', '"long"', True, False),
    "avro: type changed": (AVRO, '"int"', '"string"', False, False),
    "avro: union widened": (AVRO, '["null","int"]', '["null","int","string"]', True, False),
    "avro: symbol added": (
        AVRO,
        '{"type":"enum","name":"E","symbols":["A"]}',
        '{"type":"enum","name":"E","symbols":["A","B"]}',
        True,
        False,
    ),
    "json: number from integer": (JSON, INT, {"type": "number"}, True, False),
    "json: null added": (JSON, TEXT, {"type": ["string", "null"]}, True, False),
    "json: property added to open": (JSON, _object(), _object(a=INT), False, True),
    "json: property added to closed": (JSON, _object(True), _object(True, a=INT), True, False),
    "json: required added": (JSON, _object(a=INT), _object(required=("a",), a=INT), False, True),
    "json: object closed": (JSON, _object(a=INT), _object(True, a=INT), False, True),
    "json: enum extended": (JSON, {"enum": [1]}, {"enum": [1, 2]}, True, False),
    "json: minimum raised": (JSON, {"minimum": 1}, {"minimum": 2}, False, True),
    "json: maxLength raised": (JSON, {"maxLength": 1}, {"maxLength": 2}, True, False),
    "json: items changed": (JSON, {"items": INT}, {"items": TEXT}, False, False),
    "json: oneOf extended": (JSON, {"oneOf": [INT]}, {"oneOf": [INT, TEXT]}, True, False),
    "json: pattern changed": (JSON, {"pattern": "a"}, {"pattern": "b"}, False, False),
    "json: title changed": (JSON, {"title": "a"}, {"title": "b"}, True, True),
    "json: recursive": (
        JSON,
        {"$ref": "#/definitions/n", "definitions": {"n": {"properties": {"n": {"$ref": "#/definitions/n"}, "v": INT}}}},
        {
            "$ref": "#/definitions/n",
            "definitions": {"n": {"properties": {"n": {"$ref": "#/definitions/n"}, "v": TEXT}}},
        },
        False,
        False,
    ),
    "protobuf: field added": (PROTOBUF, _message("int32 a = 1;"), _message("int32 a = 1; int32 b = 2;"), True, True),
    "protobuf: field renamed": (PROTOBUF, _message("int32 a = 1;"), _message("int32 b = 1;"), True, True),
    "protobuf: same encoding": (PROTOBUF, _message("int32 a = 1;"), _message("bool a = 1;"), True, True),
    "protobuf: other encoding": (PROTOBUF, _message("int32 a = 1;"), _message("string a = 1;"), False, False),
    "protobuf: message from scalar": (PROTOBUF, _message("int32 a = 1;"), _message("M a = 1;"), False, False),
    "protobuf: message removed": (PROTOBUF, _message("", "message N {}"), _message(""), False, True),
    "protobuf: number repeated": (PROTOBUF, _message("int32 a = 1;"), _message("repeated int32 a = 1;"), False, False),
    "protobuf: field left oneof": (
        PROTOBUF,
        _message("oneof o { int32 a = 1; int32 b = 2; }"),
        _message("oneof o { int32 a = 1; }"),
        False,
        True,
    ),
    "protobuf: two fields into oneof": (
        PROTOBUF,
        _message("int32 a = 1; int32 b = 2;"),
        _message("oneof o { int32 a = 1; int32 b = 2; }"),
        False,
        True,
    ),
}


def _parsed(kind: str, schema: Any) -> Parsed:
    return parse(SchemaText(kind, schema if isinstance(schema, str) else json.dumps(schema)))


@pytest.mark.parametrize("name", CASES)
def test_both_directions(name: str) -> None:
    kind, earlier, later, backward, forward = CASES[name]
    new, old = _parsed(kind, later), _parsed(kind, earlier)
    assert (not new.cannot_read(old), not old.cannot_read(new)) == (backward, forward), (
        new.cannot_read(old),
        old.cannot_read(new),
    )
    for level, is_allowed in (
        ("NONE", True),
        ("BACKWARD", backward),
        ("FORWARD_TRANSITIVE", forward),
        ("FULL", backward and forward),
    ):
        assert (not why_incompatible(level, new, [old])) is is_allowed, level


def test_transitive_levels_compare_with_all_earlier_versions() -> None:
    first, second, third = _parsed(AVRO, _avro(A)), _parsed(AVRO, _avro(A, B_DEFAULT)), _parsed(AVRO, _avro(A, B))
    assert why_incompatible("BACKWARD", third, [first, second]) == []
    assert "b" in why_incompatible("BACKWARD_TRANSITIVE", third, [first, second])[0]


def test_kinds_of_a_subject_do_not_mix() -> None:
    assert why_incompatible("FULL", _parsed(JSON, "{}"), [_parsed(AVRO, '"int"')]) == [
        "the types of the schemas differ"
    ]


def test_subject_has_the_level_of_all_until_it_has_its_own() -> None:
    store = Store()
    store.register("a", AVRO, '"int"', ())
    with pytest.raises(RegistryError) as caught:
        store.register("a", AVRO, '"string"', ())
    assert caught.value.code == 409
    store.set_level("a", "none")
    assert store.register("a", AVRO, '"string"', ()).number == 2
    assert store.delete_level("a") == "NONE" and store.level("a") == "BACKWARD"
    assert store.incompatibilities("a", "1", AVRO, '"long"', ()) == []
    assert store.incompatibilities("a", None, AVRO, '"long"', ()) != []
