"""JSON Schemas of any names and keywords are types whose names tables have, or errors of the scan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.archive.column_types import storable
from odradek.columns.errors import InvalidScan
from odradek.columns.json_decoder import JsonDecoder
from odradek.columns.json_schema_types import type_of_json_schema
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import make_compatible_name

from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("processes")
_NAMES = st.sampled_from(["a", "A", "", "\0", "a.b", "é", "e\u0301", "\ud800", " ", "value"])
_LEAVES = st.sampled_from(
    [
        True, False, {}, {"type": "integer"}, {"type": ["number", "null"]}, {"type": []}, {"$ref": "#"}, {"oneOf": [{}]},
        {"allOf": [{"type": "integer"}]}, {"const": 1}, {"enum": ["a", 1]}, {"type": "object", "properties": {}},
        {"type": "array", "items": [{}]}, {"type": 5}, {"not": {}},
    ]
)  # fmt: skip
_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda one: (
        st.dictionaries(_NAMES, one, max_size=4).map(lambda fields: {"type": "object", "properties": fields})
        | one.map(lambda items: {"type": "array", "items": items})
    ),
    max_leaves=8,
)
_TOP = st.dictionaries(_NAMES, _SCHEMAS, max_size=5).map(lambda fields: {"properties": fields})


def names_of(kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_list(kind):
        yield from names_of(kind.value_type)
    elif pa.types.is_struct(kind):
        for one in kind:
            yield one.name
            yield from names_of(one.type)


@given(schema=_TOP | _SCHEMAS)
@settings(max_examples=examples(150), deadline=None)
def test_json_schema_is_a_type_that_tables_have_or_an_invalid_scan(schema: Any) -> None:
    try:
        kind = type_of_json_schema(json.dumps(schema))
    except InvalidScan:
        properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
        assert not any(name.strip("\0\ud800") for name in properties)
        return
    assert all(make_compatible_name(name) and "\0" not in name for name in names_of(kind))
    assert len(_pyarrow_to_schema_without_ids(pa.schema([("value", storable(kind))])).fields) == 1
    document = dict.fromkeys(schema["properties"], 1)
    found = JsonDecoder(kind).decode(pa.array([json.dumps(document).encode(), b"{}", b"null"], pa.binary()))
    assert len(found.values) == 3 and 1 not in found.bad
