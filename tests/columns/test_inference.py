"""Inferred types of JSON do not depend on the batches, and have their limits."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columns import Inference
from odradek.columns.inference import MOST_FIELDS, field_count
from odradek.columns.json_schema_types import type_of_json_schema

from tests.columns.fuzz import VALUES
from tests.harness.examples import examples


def sorted_fields(kind: pa.DataType) -> pa.DataType:
    """The type with fields by name: their order is that of their first values."""
    if pa.types.is_struct(kind):
        return pa.struct(sorted((one.name, sorted_fields(one.type)) for one in kind))
    return pa.list_(sorted_fields(kind.value_type)) if pa.types.is_list(kind) else kind


@given(values=st.lists(VALUES, max_size=8), cut=st.integers(0, 8))
@settings(max_examples=examples(100), deadline=None)
def test_type_is_the_same_in_one_batch_and_in_two_and_in_any_order(values: list[bytes | None], cut: int) -> None:
    def of(some: list[bytes | None]) -> Inference:
        return Inference.of(pa.array(some, pa.binary()))

    whole = sorted_fields(of(values).type)
    first, second = of(values[:cut]), of(values[cut:])
    assert sorted_fields(first.widen(second).type) == whole == sorted_fields(second.widen(first).type)
    assert sorted_fields(of(values[::-1]).type) == whole and field_count(whole) <= MOST_FIELDS
    assert first.widen(second).rows == sum(one is not None for one in values)
    if pa.types.is_struct(whole) and "decimal" not in str(whole):
        assert sorted_fields(type_of_json_schema(of(values).json_schema())) == whole


def test_record_with_too_many_fields_changes_no_type_and_is_counted() -> None:
    wide = json.dumps({f"f{at}": at for at in range(MOST_FIELDS + 1)}).encode()
    found = Inference.of(pa.array([b'{"id": 1}', wide]))
    assert found.type == pa.struct([("id", pa.int64())]) and found.outsized == 1
    assert "passed over: 1 value of more than 1000 fields" in str(found)


def test_new_keys_in_each_record_are_text() -> None:
    found = Inference.of(pa.array([json.dumps({f"k{at}": at}).encode() for at in range(MOST_FIELDS + 1)]))
    assert found.type == pa.string() and "JSON text" in str(found)


def test_names_that_are_no_columns_are_named() -> None:
    found = Inference.of(pa.array([b'{"a": 1, "A": 2, "": 3, "\\u0000": 4, "in": {"b": 1, "B": 1}}', b'{"A": 5}']))
    assert {one.name for one in found.type} == {"A", "in"}
    assert set(found.left_out) == {"a", "", "\0", "in.b"} and "no columns" in str(found)
