"""Fields of one type whose names Iceberg and engines confuse: a table has some, and it is always the same ones."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.archive import ArchiveError
from odradek.archive.column_names import distinct_fields, names_in_conflict
from odradek.archive.column_types import merged
from odradek.archive.rows import TypedRows
from odradek.columns import ValueSchema
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import assign_fresh_schema_ids, sanitize_column_names

from tests.harness.examples import examples

_NAMES = [
    "a", "b", "A", "a.b", "a.b.a", "1", "_1", "element", "a.element", "value", "key", "a.value", "a.key", "_x2E", "a_x2Eb",
    ".", ".a", "b.", "_", "²", "_²", "s", "S", "größe",
]  # fmt: skip


def _structs(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(st.sampled_from(_NAMES), kinds, min_size=1, max_size=5).map(
        lambda one: pa.struct(list(one.items()))
    )


def _nested(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    lists = kinds.map(lambda one: pa.list_(pa.field("element", one)))
    return _structs(kinds) | lists | kinds.map(lambda one: pa.map_(pa.string(), one))


_STRUCTS = _structs(st.recursive(st.just(pa.int64()), _nested, max_leaves=8))


def is_taken(kind: pa.DataType) -> bool:
    """Returns whether PyIceberg has a table with a column of the type, and can write it."""
    try:
        schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(pa.schema([("value", kind)])))
        return bool(schema._name_to_id and sanitize_column_names(schema)._name_to_id)
    except ValueError as error:
        assert "multiple fields for name" in str(error)
        return False


def shuffled(kind: pa.DataType, rng: random.Random) -> pa.DataType:
    """The type with the fields of its structs in another order."""
    if pa.types.is_struct(kind):
        fields = [(one.name, shuffled(one.type, rng)) for one in kind]
        return pa.struct(rng.sample(fields, len(fields)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, shuffled(kind.item_type, rng))
    return pa.list_(pa.field("element", shuffled(kind.value_type, rng))) if pa.types.is_list(kind) else kind


def ordered(kind: pa.DataType) -> pa.DataType:
    """The type with the fields of its structs by name."""
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, ordered(one.type)) for one in sorted(kind, key=lambda one: one.name)])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, ordered(kind.item_type))
    return pa.list_(pa.field("element", ordered(kind.value_type))) if pa.types.is_list(kind) else kind


def names(kind: pa.DataType) -> list[str]:
    if pa.types.is_struct(kind):
        assert kind.num_fields
        return [one.name for one in kind] + [name for one in kind for name in names(one.type)]
    if pa.types.is_map(kind):
        return names(kind.item_type)
    return names(kind.value_type) if pa.types.is_list(kind) else []


@given(kind=_STRUCTS, seed=st.integers(0, 99))
@settings(max_examples=examples(200), deadline=None)
def test_distinct_fields_are_those_of_a_table_in_any_order(kind: pa.DataType, seed: int) -> None:
    found = distinct_fields(kind)
    assert is_taken(found) and names(found) and distinct_fields(found) == found
    assert ordered(distinct_fields(shuffled(kind, random.Random(seed)))) == ordered(found)
    assert bool(names_in_conflict(kind)) != is_taken(kind)


@given(old=_STRUCTS, new=_STRUCTS)
@settings(max_examples=examples(200), deadline=None)
def test_columns_of_a_table_stay_beside_new_ones(old: pa.DataType, new: pa.DataType) -> None:
    old = distinct_fields(old)
    found = distinct_fields(merged(old, new), old)
    assert is_taken(found) and merged(found, old) == found


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        (["a", "A"], ["A"]),
        (["1", "_1"], ["_1"]),
        (["a.b", "a_x2Eb"], ["a_x2Eb"]),
        (["a.b", "b", "1"], ["a.b", "b", "1"]),
    ],
)
def test_plain_names_come_before_odd_ones(fields: list[str], kept: list[str]) -> None:
    found = distinct_fields(pa.struct([(name, pa.int64()) for name in fields]))
    assert [one.name for one in found] == kept


def test_schema_with_names_that_no_table_takes_is_an_error_in_words() -> None:
    schema = pa.schema([("1", pa.int64()), ("_1", pa.int64())])
    with pytest.raises(ArchiveError, match="topic t: a table cannot have the field 1 beside others of the schema"):
        TypedRows(ValueSchema("json", schema), "t", None)
